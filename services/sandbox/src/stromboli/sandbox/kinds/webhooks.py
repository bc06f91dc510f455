"""Webhook configurations: who wants to be asked before an object is written.

Two kinds with nearly the same fields. What is refused here could never be called later: an entry
without a way to reach it, an expression that is no CEL. The words are kube's.
"""

from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from stromboli.sandbox import causes
from stromboli.sandbox.behaviour import Behaviour
from stromboli.sandbox.causes import Cause
from stromboli.sandbox.documents import Document, same_document
from stromboli.sandbox.webhooks.conditions import compilation_problem

__all__ = [
    "MUTATING_CONFIGURATIONS",
    "MUTATING_KEY",
    "VALIDATING_CONFIGURATIONS",
    "VALIDATING_KEY",
]

MUTATING_KEY: Final = "admissionregistration.k8s.io/mutatingwebhookconfigurations"
VALIDATING_KEY: Final = "admissionregistration.k8s.io/validatingwebhookconfigurations"

_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_MAX_TIMEOUT_S: Final = 30
_MAX_CONDITIONS: Final = 64
_URL_FORM: Final = "desired format: https://host[/path]"
_CHOICES: Final = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
    "sideEffects": _SIDE_EFFECTS,
}


class ServiceShape(msgspec.Struct):
    namespace: str | None = None
    name: str | None = None
    path: str | None = None
    port: int | None = None


class ClientShape(msgspec.Struct, rename="camel"):
    url: str | None = None
    service: ServiceShape | None = None
    ca_bundle: str | None = None


class RuleShape(msgspec.Struct, rename="camel"):
    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None


class ConditionShape(msgspec.Struct):
    name: str | None = None
    expression: str | None = None


class WebhookShape(msgspec.Struct, rename="camel"):
    name: str | None = None
    client_config: ClientShape | None = None
    rules: list[RuleShape] | None = None
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: dict[str, Any] | None = None
    object_selector: dict[str, Any] | None = None
    side_effects: str | None = None
    timeout_seconds: int | None = None
    admission_review_versions: list[str] | None = None
    match_conditions: list[ConditionShape] | None = None
    reinvocation_policy: str | None = None


class ConfigurationShape(msgspec.Struct):
    webhooks: list[WebhookShape] | None = None


def _default(configuration: Document) -> None:
    for webhook in configuration.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")


def _default_mutating(configuration: Document) -> None:
    _default(configuration)
    for webhook in configuration.get("webhooks") or ():
        webhook.setdefault("reinvocationPolicy", "Never")


def _default_validating(configuration: Document) -> None:
    _default(configuration)
    for webhook in configuration.get("webhooks") or ():
        webhook.pop("reinvocationPolicy", None)


def _causes(configuration: Document) -> list[Cause]:
    found: list[Cause] = []
    names: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        field = f"webhooks[{index}]"
        name = webhook.get("name", "")
        found += _name_causes(name, f"{field}.name")
        if name in names:
            found.append(causes.duplicate(f"{field}.name", name))
        names.add(name)
        found += _webhook_causes(webhook, field)
    return found


def _name_causes(name: str, field: str) -> list[Cause]:
    if not name:
        return [causes.required(field)]
    if len([part for part in name.split(".") if part]) < 3:
        detail = "should be a domain with at least three segments separated by dots"
        return [causes.invalid(field, name, detail)]
    return []


def _webhook_causes(webhook: Document, field: str) -> list[Cause]:
    found: list[Cause] = []
    for index, rule in enumerate(webhook.get("rules") or ()):
        found += _rule_causes(rule, f"{field}.rules[{index}]")
    for key, choices in _CHOICES.items():
        value = webhook.get(key)
        if value is not None and value not in choices:
            found.append(causes.not_supported(f"{field}.{key}", value, choices))
    if webhook.get("sideEffects") is None:
        detail = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        found.append(causes.required(f"{field}.sideEffects", detail))
    timeout = webhook.get("timeoutSeconds", 10)
    if not 1 <= timeout <= _MAX_TIMEOUT_S:
        detail = "the timeout value must be between 1 and 30 seconds"
        found.append(causes.invalid(f"{field}.timeoutSeconds", timeout, detail))
    found += _version_causes(webhook, f"{field}.admissionReviewVersions")
    found += _client_causes(webhook.get("clientConfig") or {}, f"{field}.clientConfig")
    found += _condition_causes(webhook.get("matchConditions") or [], f"{field}.matchConditions")
    return found


def _rule_causes(rule: Document, field: str) -> list[Cause]:
    found = [
        causes.required(f"{field}.{key}")
        for key in ("operations", "apiGroups", "apiVersions", "resources")
        if not rule.get(key)
    ]
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            found.append(
                causes.not_supported(f"{field}.operations[{index}]", operation, _OPERATIONS)
            )
    for index, resource in enumerate(rule.get("resources") or ()):
        if resource == "":
            found.append(causes.required(f"{field}.resources[{index}]"))
    if rule.get("scope") not in {None, *_SCOPES}:
        found.append(causes.not_supported(f"{field}.scope", rule["scope"], _SCOPES))
    return found


def _version_causes(webhook: Document, field: str) -> list[Cause]:
    versions = webhook.get("admissionReviewVersions") or []
    known = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [causes.required(field, f"must specify one of {known}")]
    if not any(version in _REVIEW_VERSIONS for version in versions):
        return [causes.invalid(field, versions, f"must include at least one of {known}")]
    return []


def _client_causes(client: Document, field: str) -> list[Cause]:
    url: str | None = client.get("url")
    service: Document = client.get("service") or {}
    if (url is None) == ("service" not in client):
        return [causes.required(field, "exactly one of url or service is required")]
    if url is not None:
        return _url_causes(url, f"{field}.url")
    found = [
        causes.required(f"{field}.service.{key}")
        for key in ("name", "namespace")
        if not service.get(key)
    ]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        found.append(causes.invalid(f"{field}.service.port", port, detail))
    return found


def _url_causes(url: str, field: str) -> list[Cause]:
    try:
        parts = urlsplit(url)
    except ValueError as problem:
        return [causes.required(field, f"url must be a valid URL: {problem}; {_URL_FORM}")]
    found: list[Cause] = []
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme; {_URL_FORM}"
        found.append(causes.invalid(field, parts.scheme, detail))
    if not parts.hostname:
        found.append(causes.invalid(field, "", f"host must be specified; {_URL_FORM}"))
    for part, what in (
        ("@" in parts.netloc, "user information is not permitted in the URL"),
        (bool(parts.fragment), "fragments are not permitted in the URL"),
        (bool(parts.query), "query parameters are not permitted in the URL"),
    ):
        if part:
            found.append(causes.invalid(field, url, what))
    return found


def _condition_causes(conditions: list[Document], field: str) -> list[Cause]:
    if len(conditions) > _MAX_CONDITIONS:
        return [causes.too_many(field, len(conditions), _MAX_CONDITIONS)]
    found: list[Cause] = []
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        name, expression = condition.get("name", ""), condition.get("expression", "")
        if not name:
            found.append(causes.required(f"{field}[{index}].name"))
        elif name in names:
            found.append(causes.duplicate(f"{field}[{index}].name", name))
        names.add(name)
        if not expression.strip():
            found.append(causes.required(f"{field}[{index}].expression"))
            continue
        problem = compilation_problem(expression)
        if problem:
            detail = f"compilation failed: {problem}"
            found.append(causes.invalid(f"{field}[{index}].expression", expression, detail))
    return found


def _asks_for_more(new: Document, old: Document) -> bool:
    return not same_document({"": new.get("webhooks")}, {"": old.get("webhooks")})


MUTATING_CONFIGURATIONS: Final = Behaviour(
    shape=ConfigurationShape,
    default=_default_mutating,
    validate=_causes,
    next_generation=_asks_for_more,
)
VALIDATING_CONFIGURATIONS: Final = Behaviour(
    shape=ConfigurationShape,
    default=_default_validating,
    validate=_causes,
    next_generation=_asks_for_more,
)
