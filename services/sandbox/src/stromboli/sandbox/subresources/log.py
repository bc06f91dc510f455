"""Logs of a pod: the options checked here, the lines fetched from the kubelet that has them.

The node says where its kubelet listens (status.addresses, status.daemonEndpoints), so kubelets
may run in any process. A pod without a node has printed nothing.
"""

from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from stromboli.sandbox import causes, statuses
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document, decode
from stromboli.sandbox.remote import Passage
from stromboli.sandbox.requests import Answer, ApiRequest
from stromboli.sandbox.store import Store

__all__ = ["log"]

_PASSED_ON: Final = (
    "follow",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "timestamps",
    "tailLines",
    "limitBytes",
)
_LEAST: Final = {"tailLines": 0, "sinceSeconds": 1, "limitBytes": 1}


def log(request: ApiRequest, query: str, store: Store) -> Answer | Passage:
    options = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=100))
    _check(request.name, options)
    stored = store.get("pods", request.namespace, request.name)
    if stored is None:
        raise statuses.not_found("", "pods", request.name)
    pod: Document = decode(stored.body)
    container = _container(pod, options.get("container", ""))
    node = pod["spec"].get("nodeName")
    if not node:
        return Answer(200, b"", content_type="text/plain")
    asked = urlencode({key: options[key] for key in _PASSED_ON if options.get(key)})
    place = f"{_kubelet(store, node)}/containerLogs/{request.namespace}/{request.name}/{container}"
    url = f"{place}?{asked}" if asked else place
    return Passage(url, is_proxy=False, resource="pods/log", name=request.name)


def _check(name: str, options: dict[str, str]) -> None:
    found: list[Cause] = []
    for key, least in _LEAST.items():
        text = options.get(key)
        if not text:
            continue
        try:
            number = int(text)
        except ValueError:
            told = f'strconv.ParseInt: parsing "{text[:64]}": invalid syntax'
            raise statuses.bad_request(told) from None
        if number < least:
            detail = (
                f"must be greater than or equal to {least}"
                if least == 0
                else ("must be greater than 0")
            )
            found.append(causes.invalid(key, number, detail))
    if options.get("sinceSeconds") and options.get("sinceTime"):
        detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        found.append(causes.forbidden("", detail))
    if found:
        raise statuses.invalid("", "PodLogOptions", name, found)


def _container(pod: Document, asked: str) -> str:
    """The container whose log is meant; one that is not named must be the only one."""
    spec: Document = pod["spec"]
    name = pod["metadata"]["name"]
    names = [one["name"] for one in spec["containers"]]
    others = [one["name"] for one in spec.get("initContainers") or ()]
    if asked:
        if asked not in names and asked not in others:
            raise statuses.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(names) == 1:
        return names[0]
    told = f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
    if others:
        told += f" or one of the init containers: [{' '.join(others)}]"
    raise statuses.bad_request(told)


def _kubelet(store: Store, node: str) -> str:
    """Where the kubelet of a node listens."""
    stored = store.get("nodes", "", node)
    if stored is None:
        # kube's own words: it looks for the node and tells of pods.
        raise statuses.not_found("", "pods", node)
    status: dict[str, Any] = decode(stored.body).get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    address = next(
        (
            one.get("address")
            for one in status.get("addresses") or ()
            if one.get("type") == "InternalIP"
        ),
        "",
    )
    if not address:
        why = f"no preferred addresses found; known addresses: {status.get('addresses') or []}"
        raise statuses.internal_error(why)
    return f"https://{address}:{port or 10250}"
