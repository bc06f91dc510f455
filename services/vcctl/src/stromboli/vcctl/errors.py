"""What makes a vcctl command fail, in the words that its user sees.

VcctlError            printed as `Failed to <command>: <sentence>`, exit status 255
├── BadArguments      a flag's value makes no sense, or a flag is missing
├── BadLine           the command line can not be read at all
├── UnusableFile      a file named on the command line can not be read or is not a Job
└── BusOutOfReach     `bus tail` found no NATS server that lets it in

Scripts compare some of the sentences, so those are Volcano's, letter by letter.
"""


class VcctlError(Exception):
    """The command could not be carried out."""


class BadArguments(VcctlError):
    """What was asked for can not be done as asked."""


class BadLine(VcctlError):
    """An unknown command or flag, or a flag without its value."""

    def __init__(self, path: str, sentence: str) -> None:
        super().__init__(sentence)
        self.path = path
        """The command as far as it was understood."""


class UnusableFile(VcctlError):
    """A file that was named does not hold what it should."""


class BusOutOfReach(VcctlError):
    """There was no connection to NATS in time."""

    def __init__(self, url: str, waited_s: float) -> None:
        super().__init__(
            f"no connection to NATS at {url} within {waited_s:g} s: is it the right address "
            "(--url), and are the user and its password right (--user, --password-file)?"
        )
        self.url = url
