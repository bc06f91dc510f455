"""What is printed from the tables of rules: the reference page and the CEL policies.

`python -m stromboli.admitting.reference --write ROOT` writes them into a working copy,
`--check ROOT` says what has drifted.
"""

from stromboli.admitting.reference.page import page
from stromboli.admitting.reference.policies import policies, policy_files

__all__ = ["generated", "page", "policies", "policy_files"]


def generated() -> dict[str, str]:
    """Every generated file of the repository, by its path in it."""
    files = {f"deploy/policies/{name}": text for name, text in policy_files().items()}
    return {"docs/reference/admission.md": page(), **files}
