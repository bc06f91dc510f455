"""Requests passed on to a service or a pod: `…/services/[https:]name[:port]/proxy/path`.

Only what runs on this machine can be reached; see `endpoints.py`. Webhooks that ask for CONNECT
are heard first.
"""

from typing import Final

from stromboli.sandbox import statuses
from stromboli.sandbox.documents import Document
from stromboli.sandbox.endpoints import Endpoints
from stromboli.sandbox.errors import NoEndpoints
from stromboli.sandbox.remote import Passage
from stromboli.sandbox.requests import ApiRequest
from stromboli.sandbox.store import Store
from stromboli.sandbox.webhooks.reviewing import Admission, Kind

__all__ = ["proxy"]

_KINDS: Final = {
    "pods": Kind("", "v1", "PodProxyOptions"),
    "services": Kind("", "v1", "ServiceProxyOptions"),
}


async def proxy(
    request: ApiRequest,
    path: str,
    query: str,
    *,
    store: Store,
    endpoints: Endpoints,
    admission: Admission,
) -> Passage:
    """Where the request goes; `path` is what followed `/proxy`, as it was sent."""
    plural = request.served.resource.plural
    scheme, name, port = _parsed(plural, request.name)
    kind = _KINDS[plural]
    review = admission.of(request, "CONNECT", kind=kind)
    if review is not None:
        options: Document = {"kind": kind.kind, "apiVersion": "v1"}
        if path:
            options["path"] = path
        await review.changed(options, None)
        await review.approve(options, None)
    if store.get(plural, request.namespace, name) is None:
        raise statuses.not_found("", plural, name)
    try:
        if plural == "services":
            host, number = endpoints.of_service(request.namespace, name, port)
        else:
            host, number = endpoints.of_pod(request.namespace, name, port)
    except NoEndpoints as problem:
        raise statuses.service_unavailable(str(problem)) from problem
    shown = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{shown}:{number}{path or '/'}"
    return Passage(f"{url}?{query}" if query else url, is_proxy=True)


def _parsed(plural: str, given: str) -> tuple[str, str, str]:
    """Scheme, name and port of `[scheme:]name[:port]`; a lone colon leaves the port open."""
    parts = given.split(":")
    scheme = "http"
    if len(parts) == 3:
        scheme = parts.pop(0) or "http"
    if len(parts) > 2 or not parts[0] or scheme not in {"http", "https"}:
        raise statuses.bad_request(f'invalid {plural.removesuffix("s")} request "{given}"')
    return scheme, parts[0], parts[1] if len(parts) == 2 else ""
