"""Which printer a built-in resource has; those without one show their name and age."""

from typing import Final

from stromboli.sandbox.printing.cluster import CLUSTER_PRINTERS
from stromboli.sandbox.printing.columns import NAME_AND_AGE, Printer
from stromboli.sandbox.printing.pods import PODS
from stromboli.sandbox.printing.workloads import WORKLOAD_PRINTERS

__all__ = ["printer_of"]

_PRINTERS: Final[dict[str, Printer]] = {"pods": PODS, **CLUSTER_PRINTERS, **WORKLOAD_PRINTERS}


def printer_of(key: str) -> Printer:
    """By the name the store knows the resource by."""
    return _PRINTERS.get(key, NAME_AND_AGE)
