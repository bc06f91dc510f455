"""Containers: there is one, they are told apart by name, and each runs an image."""

from collections.abc import Iterator
from typing import Final

from stromboli.admitting.names import label_faults
from stromboli.admitting.templates.cases import ContainerCase, TemplateCase, template_rule
from stromboli.admitting.templates.fielderrors import (
    all_invalid,
    duplicate,
    invalid,
    required,
    unsupported,
)

__all__ = ["container_images", "container_names", "container_policies"]

_MESSAGE_POLICIES: Final = ("FallbackToLogsOnError", "File")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")


@template_rule(
    "container-names",
    about="a pod has a container; names are DNS labels, and init containers share them",
)
def container_names(case: TemplateCase) -> Iterator[str]:
    place = case.spec_path
    if not case.spec.containers:
        yield required(f"{place}.containers")
    seen: set[str] = set()
    for field, containers in (
        ("containers", case.spec.containers),
        ("initContainers", case.spec.init_containers),
    ):
        for index, container in enumerate(containers):
            where, name = f"{place}.{field}[{index}].name", container.name
            if not name:
                yield required(where)
                continue
            yield from all_invalid(where, name, label_faults(name))
            if name in seen:
                yield duplicate(where, name)
            seen.add(name)


@template_rule("container-images", about="a container names an image, without space around it")
def container_images(case: ContainerCase) -> Iterator[str]:
    image = case.container.image
    if not image:
        yield required(f"{case.path}.image")
    elif image != image.strip():
        detail = "must not have leading or trailing whitespace"
        yield invalid(f"{case.path}.image", image, detail)


@template_rule(
    "container-policies",
    fields=("image_pull_policy", "termination_message_policy", "restart_policy"),
    about="policies for pulling, restarting and the last message are known ones",
)
def container_policies(case: ContainerCase) -> Iterator[str]:
    one = case.container
    if one.image_pull_policy and one.image_pull_policy not in _PULL_POLICIES:
        yield unsupported(f"{case.path}.imagePullPolicy", one.image_pull_policy, _PULL_POLICIES)
    policy = one.termination_message_policy
    if policy and policy not in _MESSAGE_POLICIES:
        yield unsupported(f"{case.path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if one.restart_policy is not None and one.restart_policy not in _RESTART_POLICIES:
        yield unsupported(f"{case.path}.restartPolicy", one.restart_policy, _RESTART_POLICIES)
