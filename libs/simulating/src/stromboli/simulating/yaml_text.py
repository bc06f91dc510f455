"""YAML read as the JSON it stands for, as kubectl does, with the line where each document begins.

Timestamps stay text and keys become text. Text that is JSON is read as JSON, which is many times
faster: what `kubectl get -o json` prints of a large cluster is large.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import yaml

from stromboli.api.yaml_as_json import AsJson
from stromboli.simulating.errors import BadInput

__all__ = ["Document", "documents"]

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Document(NamedTuple):
    """One document of a file."""

    number: int
    line: int
    content: Any


class _Loader(AsJson, _Base):
    """The quick one, if there is one."""


def documents(name: str, text: str) -> Iterator[Document]:
    """Those that are not empty; raises BadInput with the line where reading ends."""
    if text.lstrip().startswith("{"):
        try:
            yield Document(1, 1, msgspec.json.decode(text))
            return
        except (msgspec.DecodeError, RecursionError):
            pass  # a mapping of YAML may begin like this too, and YAML's errors have lines
    loader: Any = None
    try:
        make: Any = _Loader
        loader = make(text)
        number = 0
        while loader.check_node():
            node: Any = loader.get_node()
            number += 1
            content = loader.construct_document(node)
            if content is not None:
                yield Document(number, node.start_mark.line + 1, content)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        where = f"{name}:{mark.line + 1}" if mark is not None else name
        said = ", ".join(part for part in (fault.context, fault.problem) if part)
        raise BadInput(where, f"this is not YAML: {said}") from fault
    except yaml.YAMLError as fault:
        raise BadInput(name, f"this is not YAML: {str(fault).splitlines()[0]}") from fault
    except (ValueError, RecursionError) as fault:
        raise BadInput(name, f"this is not YAML that anybody can use: {fault}") from fault
    finally:
        if loader is not None:
            loader.dispose()
