"""What came of a simulation, for people: tables that line up, and say so when they are empty.

What is long is folded: pods that differ only in their number share a line.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from stromboli.api.errors import QuantityError
from stromboli.api.resources import to_base_units
from stromboli.scheduling.resources import readable
from stromboli.simulating.particulars import Evicted, Particulars
from stromboli.vcctl.tables import MOST_LINES, count, paragraph, section, stdout, tell_rest

__all__ = ["print_tables"]

_MOST_NODES: Final = 4
_MOST_NAMES: Final = 3
_NUMBER: Final = re.compile(r"-(\d+)$")


def print_tables(
    outcome: Mapping[str, Any], particulars: Particulars, console: Console | None = None
) -> None:
    console = console or stdout()
    console.print(Text(_summary(outcome, particulars), style="bold"))
    section(console, "Placed", ("Pods", "Nodes"), _placed(outcome["binds"]), "no pod")
    section(
        *(console, "Waiting for pods that are ending", ("Pods", "Nodes")),
        *(_placed(outcome["pipelined"]), "no pod"),
    )
    section(
        *(console, "Evicted", ("Pods", "Node", "By", "For")),
        *(_evicted(particulars.evicted), "no pod"),
    )
    section(
        *(console, "PodGroups", ("PodGroup", "Phase", "Reason")),
        *(_groups(outcome["podgroups"], outcome["explanations"]), "none"),
    )
    section(
        *(console, "Queues", ("Queue", "State", "Weight", "Share", *_QUEUE_AMOUNTS)),
        *(_queues(outcome["queues"]), "none"),
        below=len(_QUEUE_AMOUNTS),
    )
    _reasons(console, outcome["explanations"])


def _summary(outcome: Mapping[str, Any], particulars: Particulars) -> str:
    groups: Mapping[str, Any] = outcome["podgroups"]
    phases = Counter(group["phase"] for group in groups.values())
    told = ", ".join(f"{number} {phase}" for phase, number in sorted(phases.items()))
    heirs = len(outcome["pipelined"])
    ending = f"{'all' if heirs == particulars.waiting else heirs} of them for pods that are ending"
    parts = [
        f"{count(len(outcome['binds']), 'pod')} placed",
        f"{count(particulars.waiting, 'pod')} waiting" + (f" ({ending})" if heirs else ""),
        f"{count(len(outcome['evictions']), 'pod')} evicted",
        f"{count(len(groups), 'PodGroup')}" + (f": {told}" if told else ""),
    ]
    return "; ".join(parts)


def _placed(places: Mapping[str, str]) -> list[tuple[str, str]]:
    if len(places) <= MOST_LINES:
        return list(places.items())
    return [(name, _nodes(places[pod] for pod in pods)) for name, pods in _alike(places)]


def _evicted(evicted: Mapping[str, Evicted]) -> list[tuple[str, ...]]:
    """Who had to go, from where, by which action, and for which job."""
    if len(evicted) <= MOST_LINES:
        return [(pod, *map(_said, one)) for pod, one in evicted.items()]
    rows: list[tuple[str, ...]] = []
    for name, pods in _alike(evicted):
        nodes, *others = zip(*(evicted[pod] for pod in pods), strict=True)
        rows.append((name, _nodes(nodes), *(_first(list(dict.fromkeys(each))) for each in others)))
    return rows


def _said(text: str) -> str:
    return text or "-"


def _alike(pods: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Pods that differ only in their number, under a name for all of them."""
    stems: dict[str, list[str]] = {}
    for pod in pods:
        stems.setdefault(_NUMBER.sub("", pod), []).append(pod)
    return [
        (together[0] if len(together) == 1 else f"{stem}-* ({len(together)} pods)", together)
        for stem, together in stems.items()
    ]


def _nodes(nodes: Iterable[str]) -> str:
    counted = Counter(nodes)
    shown = [f"{number} on {name}" if number > 1 else name for name, number in counted.items()]
    left = len(shown) - _MOST_NODES
    more = [f"and {left} more nodes"] if left > 0 else []
    return ", ".join([*shown[:_MOST_NODES], *more])


def _groups(
    groups: Mapping[str, Any], explanations: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """Those that do not run come first, with the word under which it is explained why."""
    codes = {name: why["code"] for name, why in explanations.items()}
    rows = [
        (name, group["phase"], codes.get(name, group["reason"])) for name, group in groups.items()
    ]
    return sorted(rows, key=lambda row: (row[1] in ("Running", "Completed"), row[0]))


_QUEUE_AMOUNTS: Final = ("Allocated", "Deserved", "Capability")


def _queues(queues: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            name,
            queue["state"],
            str(queue["weight"]),
            f"{queue['share']:.3g}" if "share" in queue else "-",
            *(_amounts(queue.get(column.lower())) for column in _QUEUE_AMOUNTS),
        )
        for name, queue in queues.items()
    ]


def _amounts(amounts: Mapping[str, str] | None) -> str:
    if not amounts:
        return "-"
    return ", ".join(_amount(name, text) for name, text in sorted(amounts.items()))


def _amount(name: str, text: str) -> str:
    try:
        return readable(((name, to_base_units(name, text)),))
    except QuantityError:
        return f"{text} {name}"


def _reasons(console: Console, explanations: Mapping[str, Any]) -> None:
    """Sentences do not fit into columns: each job has lines of its own."""
    console.print()
    if not explanations:
        console.print(Text("Why jobs wait: no job waits", style="dim"))
        return
    console.print(Text("Why jobs wait", style="bold"))
    for name, why in islice(explanations.items(), MOST_LINES):
        console.print(Text.assemble(f"{name}: ", (why["code"], "yellow")))
        paragraph(console, why["sentence"])
        paragraph(console, f"goes on when {why['unblock']}")
        if why["ahead"]:
            paragraph(console, f"ahead of it: {_first(why['ahead'])}")
        paragraph(console, f"since {why['since']}, last looked at {why['lastEvaluated']}")
    tell_rest(console, len(explanations), "job")


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
