"""The Job that `vcctl job run` submits: from a file as it stands, or made from flags.

A file's content is passed on whole, so that a field that this version does not know reaches
the API server all the same.
"""

from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from stromboli.api.errors import QuantityError
from stromboli.api.fieldtypes import OpaqueObject
from stromboli.api.kinds import VC_JOB
from stromboli.api.quantity import parse_quantity
from stromboli.vcctl.errors import BadArguments, UnusableFile

__all__ = ["job_from_file", "job_from_flags", "resources_of"]

_NAME_LABEL: Final = "job.volcano.sh"


def job_from_file(path: Path) -> OpaqueObject:
    """The Job in a YAML file."""
    if path.suffix not in (".yaml", ".yml"):
        raise UnusableFile("only support yaml file")
    try:
        documents: list[Any] = [
            document
            for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
            if document is not None
        ]
    except (OSError, UnicodeDecodeError) as fault:
        raise UnusableFile(f"failed to read file, err: {fault}") from fault
    except (yaml.YAMLError, RecursionError) as fault:
        raise UnusableFile(f"failed to unmarshal file, err: {fault}") from fault
    if len(documents) != 1:
        raise UnusableFile(f"{str(path)!r} holds {len(documents)} objects, expected one Job")
    manifest = documents[0]
    wanted = {"apiVersion": VC_JOB.api_version, "kind": VC_JOB.kind}
    if not isinstance(manifest, dict):
        raise UnusableFile(f"{str(path)!r} holds no object, expected a Job")
    found = {key: manifest.get(key, value) for key, value in wanted.items()}
    if found != wanted:
        raise UnusableFile(
            f"{str(path)!r} holds a {found['apiVersion']} {found['kind']}, "
            f"expected a {VC_JOB.api_version} {VC_JOB.kind}"
        )
    metadata = manifest.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise UnusableFile(f"metadata in {str(path)!r} is no object: expected a name in it")
    job = {**manifest, **wanted, "metadata": metadata}
    try:
        msgspec.json.encode(job)
    except (TypeError, ValueError, RecursionError) as fault:
        # YAML can say more than JSON: keys that are no text, an object inside itself.
        raise UnusableFile(f"{str(path)!r} can not be sent as JSON: {fault}") from fault
    return job


def job_from_flags(
    name: str,
    *,
    image: str,
    replicas: int,
    min_available: int,
    requests: str,
    limits: str,
    scheduler: str,
) -> OpaqueObject:
    """One task without a name, whose pods run the image's own command once."""
    container = {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": resources_of(requests), "limits": resources_of(limits)},
    }
    template = {
        "metadata": {"name": name, "labels": {_NAME_LABEL: name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": VC_JOB.api_version,
        "kind": VC_JOB.kind,
        "metadata": {"name": name},
        "spec": {
            "minAvailable": min_available,
            "schedulerName": scheduler,
            "tasks": [{"replicas": replicas, "template": template}],
        },
    }


def resources_of(text: str) -> dict[str, str]:
    """`cpu=1000m,memory=100Mi` as Kubernetes wants it; empty text means no resources."""
    if not text:
        return {}
    resources: dict[str, str] = {}
    for statement in text.split(","):
        parts = statement.split("=")
        if len(parts) != 2:
            raise BadArguments(f"invalid argument syntax {statement}, expected <resource>=<value>")
        try:
            resources[parts[0]] = str(parse_quantity(parts[1]))
        except QuantityError as fault:
            raise BadArguments(str(fault)) from fault
    return resources
