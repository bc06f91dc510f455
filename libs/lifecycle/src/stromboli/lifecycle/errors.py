"""What can go wrong in the controllers' decisions, other than what a decision answers itself.

LifecycleError
├── NoControllers         `--controllers` leaves nothing to run
├── PluginFailed          a job plugin raised an error of its own
└── UnknownController     `--controllers` names one that does not exist
"""

from collections.abc import Iterable

__all__ = [
    "LifecycleError",
    "NoControllers",
    "PluginFailed",
    "UnknownController",
]


class LifecycleError(Exception):
    """Any error of this library."""


class PluginFailed(LifecycleError):
    """A plugin that was installed by entry point does not do its part."""

    def __init__(self, plugin: str, while_: str, fault: BaseException) -> None:
        self.plugin = plugin
        super().__init__(
            f"plugin {plugin} failed to {while_}: {type(fault).__name__}: {fault}; correct or "
            "uninstall the distribution that provides it"
        )


class NoControllers(LifecycleError):
    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} leaves no controller to run: name one, or '*' for all")


class UnknownController(LifecycleError):
    def __init__(self, names: Iterable[str], known: Iterable[str]) -> None:
        self.names = tuple(names)
        super().__init__(
            f"no controller is called {', '.join(map(repr, self.names))}: "
            f"expected '*' or some of {', '.join(known)}, separated by commas"
        )
