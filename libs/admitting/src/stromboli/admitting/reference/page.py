"""docs/reference/admission.md, printed from the tables of rules."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from stromboli.admitting.paths import Path
from stromboli.admitting.reviewing import PATHS
from stromboli.admitting.rules import Rule
from stromboli.admitting.templates.checking import CONTAINER_RULES, POD_RULES

__all__ = ["page"]

_HEAD: Final = """\
# Admission: every default and every rule

Generated from the tables in `libs/admitting`; do not edit. After changing a rule:
`python -m stromboli.admitting.reference --write .`

A request comes to one of the paths below, first to `…/mutate`, where defaults are filled in,
then to `…/validate`, where it is accepted or refused. Messages are Volcano's, word for word; `%s`
and `%d` stand for what was found. The messages of one job are strung together, those of a queue
stand in brackets, those of other objects are joined by `; `.

- **cluster**: the rule needs to know the queues. Until they have been read in full once, what
  hangs on such a rule is refused with code 503 and may be tried again. A queue that admission has
  not heard of is looked up before it is called missing.
- **CEL**: the rule is also in the policies of `deploy/policies`, for clusters that prefer them to
  webhooks. Policies fill nothing in, and their messages quote no values.
- What the CRD schema enforces (bounds, patterns, enumerations) is not repeated here.
- Refusals have code 400, those for access to a queue 403.
"""

_CONF: Final = """\
## The configuration file

`--admission-conf` names a file in Volcano's form. The first group that a pod is in counts.

```yaml
resourceGroups:
- resourceGroup: management        # its name
  object:
    key: namespace                 # namespace, annotation, or empty
    value: [mng-ns-1]              # namespaces, or annotations such as "team: a"
  schedulerName: default-scheduler # replaces the pod's
  tolerations: [{effect: NoSchedule, key: taint, operator: Exists}]
  labels: {volcano.sh/nodetype: management}   # joins the pod's node selector
  affinity: '{"nodeAffinity": {}}' # JSON, for pods that have none
```

With an empty `key`, a pod is in the group whose name its annotation `volcano.sh/resource-group`
carries.
Who may submit to which queue is told in [queue access](../guides/queue-access.md).
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, _paths(), *map(_section, PATHS.values()), _templates(), _CONF]
    return "\n".join(parts)


def _paths() -> str:
    rows = [
        (
            f"`{each.path}`",
            f"`{each.webhook}`",
            f"{each.kind} (`{each.resource.group or 'core'}/{each.resource.version}`)",
            ", ".join(each.operations),
        )
        for each in PATHS.values()
    ]
    return "## Paths\n\n" + _table(("path", "webhook", "of", "on"), rows)


def _section(path: Path) -> str:
    lines = [f"## `{path.path}`\n"]
    if path.defaults:
        rows = [(f"`{each.name}`", each.about, each.origin) for each in path.defaults]
        lines.append(_table(("default", "what is filled in", "from"), rows))
    for operations, rules in _by_operations(path):
        if len(path.rules) > 1:
            lines.append(f"On {' and '.join(operations)}:\n")
        header = ("rule", "what must hold", "message", "from", "needs", "CEL")
        lines.append(_table(header, map(_row, rules)))
    if path.warnings:
        lines.append("Accepted on CREATE with a warning:\n")
        header = ("rule", "what should hold", "message", "from", "needs", "CEL")
        lines.append(_table(header, map(_row, path.warnings)))
    return "\n".join(lines)


def _by_operations(path: Path) -> Iterator[tuple[list[str], tuple[Rule[Any], ...]]]:
    """Operations with the same table are told of once."""
    seen: list[tuple[list[str], tuple[Rule[Any], ...]]] = []
    for operation, rules in path.rules.items():
        same = next((entry for entry in seen if entry[1] is rules), None)
        if same is None:
            seen.append(([operation], rules))
        else:
            same[0].append(operation)
    yield from seen


def _row(rule: Rule[Any]) -> Sequence[str]:
    message = rule.says.strip().rstrip(";").replace("%%", "%") if rule.says != "%s" else ""
    return (
        f"`{rule.name}`",
        rule.about,
        f"`` {message} ``" if "`" in message else f"`{message}`" if message else "",
        rule.origin,
        "cluster" if rule.needs_cluster else "",
        "yes" if rule.cel is not None else "",
    )


def _templates() -> str:
    rows = [
        *((f"`{rule.name}`", "pod", rule.about) for rule in POD_RULES),
        *((f"`{rule.name}`", "container", rule.about) for rule in CONTAINER_RULES),
    ]
    return (
        "## Pod templates\n\n"
        "Rules of the core API that `task-template` covers. Each has templates in "
        "`tests/conformance/templates` that keep and break it,\nand kube-apiserver is asked about "
        "the same templates in the e2e tests. What is not listed is found when the pod is "
        "created.\n\n"
    ) + _table(("rule", "of", "what must hold"), rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
