"""The configuration of a simulation, which asks nobody: with what is wrong as bad input."""

from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.scheduling.errors import BadConfiguration
from stromboli.simulating.errors import BadInput, listed
from stromboli.simulating.manifests import Source

__all__ = ["conf_from"]


def conf_from(source: Source) -> SchedulingConf:
    """Raises BadInput with everything that is wrong with it."""
    try:
        conf = read_conf(source.text)
        # A plugin that would have to ask somebody is refused here.
        SchedulerCore(conf)
    except BadConfiguration as bad:
        raise BadInput(source.name, listed(bad.problems)) from bad
    return conf
