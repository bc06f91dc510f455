"""Which vcctl this is, line by line as Volcano's prints it.

The last two lines name Python where Volcano names Go: what runs is what is reported.
"""

import platform
from importlib import metadata
from typing import Final

from stromboli.api.kinds import VC_JOB

__all__ = ["version_text"]

NOT_PROVIDED: Final = "Not provided."
"""What Volcano prints when a build did not say."""


def version_text() -> str:
    """The answer to `vcctl version`."""
    lines = {
        "API Version": VC_JOB.version,
        "Version": metadata.version("stromboli-vcctl"),
        "Git SHA": NOT_PROVIDED,
        "Built At": NOT_PROVIDED,
        "Python Version": platform.python_version(),
        "Python OS/Arch": f"{platform.system().lower()}/{platform.machine()}",
    }
    return "\n".join(f"{name}: {value}" for name, value in lines.items())
