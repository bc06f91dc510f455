"""Query parameters and DeleteOptions, read once and refused in kube's words when they are wrong."""

from typing import Final
from urllib.parse import parse_qsl

import msgspec

from stromboli.sandbox import causes, statuses
from stromboli.sandbox.causes import Cause

__all__ = [
    "FOREGROUND",
    "ORPHAN",
    "DeleteOptions",
    "Params",
    "Preconditions",
    "delete_options",
    "parsed",
]

_MATCHES: Final = ("Exact", "NotOlderThan", "")
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS: Final = ("Foreground", "Background", "Orphan")
ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_FINALIZER_OF: Final[dict[str, list[str]]] = {
    "Foreground": [FOREGROUND],
    "Background": [],
    "Orphan": [ORPHAN],
}
_MAX_PARAMS: Final = 100
_MAX_TIMEOUT_S: Final = 24 * 3600


class Params(msgspec.Struct, frozen=True, kw_only=True):
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    watch: bool = False
    bookmarks: bool = False
    timeout_s: int = 0
    send_initial_events: bool | None = None
    dry_run: bool = False
    field_manager: str = ""
    force: bool = False
    """An apply takes fields from those who own them."""
    strict: bool = False
    """Unknown fields are an error."""
    grace_s: int | None = None
    propagation: str = ""
    orphan_dependents: bool = False
    include_object: str = ""
    """What of an object goes into its row of a Table."""


NO_PARAMS: Final = Params()


def parsed(query: str, verb_options: str) -> Params:
    """The parameters of a request; `verb_options` is the kind named in refusals."""
    if not query:
        return NO_PARAMS
    try:
        given = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_PARAMS))
    except ValueError:
        message = f"a request may have at most {_MAX_PARAMS} parameters"
        raise statuses.bad_request(message) from None
    dry_run = given.get("dryRun", "")
    if dry_run not in {"", "All"}:
        cause = causes.not_supported("dryRun", [dry_run], ("All",))
        raise statuses.invalid("meta.k8s.io", verb_options, "", [cause])
    validation = given.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        cause = causes.not_supported("fieldValidation", validation, _VALIDATIONS)
        raise statuses.invalid("meta.k8s.io", verb_options, "", [cause])
    initial = given.get("sendInitialEvents")
    return Params(
        label_selector=given.get("labelSelector", ""),
        field_selector=given.get("fieldSelector", ""),
        limit=max(0, _number(given.get("limit", "0"))),
        continue_token=given.get("continue", ""),
        resource_version=given.get("resourceVersion", ""),
        resource_version_match=given.get("resourceVersionMatch", ""),
        watch=_flag(given.get("watch", "")),
        bookmarks=_flag(given.get("allowWatchBookmarks", "")),
        timeout_s=min(_number(given.get("timeoutSeconds", "0")), _MAX_TIMEOUT_S),
        send_initial_events=None if initial is None else _flag(initial),
        dry_run=dry_run == "All",
        field_manager=given.get("fieldManager", ""),
        force=_flag(given.get("force", "")),
        strict=validation == "Strict",
        grace_s=_number(given["gracePeriodSeconds"]) if "gracePeriodSeconds" in given else None,
        propagation=given.get("propagationPolicy", ""),
        orphan_dependents=_flag(given.get("orphanDependents", "")),
        include_object=given.get("includeObject", ""),
    )


def check_list_options(params: Params, *, watch: bool) -> None:
    """Combinations of list and watch options that the real server refuses."""
    match = params.resource_version_match
    initial = params.send_initial_events
    field = "resourceVersionMatch"
    found: list[Cause] = []
    if initial is not None and watch:
        if match != "NotOlderThan":
            detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            found.append(causes.forbidden(field, detail))
    elif match and watch:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        found.append(causes.forbidden(field, detail))
    elif match and not params.resource_version:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        found.append(causes.forbidden(field, detail))
    elif match not in _MATCHES:
        found.append(causes.not_supported(field, match, _MATCHES))
    elif match == "Exact" and params.resource_version == "0":
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        found.append(causes.forbidden(field, detail))
    if initial is not None and not watch:
        detail = "sendInitialEvents is forbidden for list"
        found.append(causes.forbidden("sendInitialEvents", detail))
    if found:
        raise statuses.invalid("meta.k8s.io", "ListOptions", "", found)


def _flag(text: str) -> bool:
    return text.lower() not in {"", "0", "false"}


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise statuses.bad_request(
            f'strconv.ParseInt: parsing "{text[:64]}": invalid syntax'
        ) from None


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None

    def collecting_finalizers(self, current: list[str], *, orphan_by_default: bool) -> list[str]:
        """Those that tell the collector what becomes of the dependents, as this delete wants it.

        What the options say counts first, then what the object has, then the kind's custom.
        """
        if self.orphan_dependents is not None:
            return [ORPHAN] if self.orphan_dependents else []
        if self.propagation_policy is not None:
            return _FINALIZER_OF[self.propagation_policy]
        held = [one for one in (ORPHAN, FOREGROUND) if one in current]
        return held or ([ORPHAN] if orphan_by_default else [])


def delete_options(body: bytes, params: Params) -> tuple[DeleteOptions, bool]:
    """What a delete asks for, and whether it is a dry run.

    As in kube a body replaces the query as a whole: options in both are not mixed.
    """
    if body:
        try:
            options = msgspec.json.decode(body, type=DeleteOptions)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise statuses.bad_request(f"the DeleteOptions cannot be read: {error}") from error
        dry_run = options.dry_run == ["All"]
    else:
        options = DeleteOptions(
            grace_period_seconds=params.grace_s,
            propagation_policy=params.propagation or None,
            orphan_dependents=params.orphan_dependents or None,
        )
        dry_run = params.dry_run
    policy = options.propagation_policy
    if policy is not None and policy not in _PROPAGATIONS:
        supported = (*_PROPAGATIONS, "nil")
        cause = causes.not_supported("propagationPolicy", policy, supported)
        raise statuses.invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    return options, dry_run
