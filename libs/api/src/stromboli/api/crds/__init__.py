"""CRD manifests of our own kinds, generated from their types.

The types are the only place where a field, its bounds or its default is written down; what
the API server enforces follows from them. `python -m stromboli.api.crds --write DIR` prints
the manifests, `--check DIR` says what has drifted.
"""

from stromboli.api.crds.manifests import CRDS, Crd, manifest, manifests
from stromboli.api.crds.schema import schema_of

__all__ = ["CRDS", "Crd", "manifest", "manifests", "schema_of"]
