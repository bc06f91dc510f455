"""The configuration file, in Volcano's form."""

import pytest

from stromboli.admitting.conf import GroupObject, read_resource_groups
from stromboli.admitting.errors import BadAdmissionConf


def test_the_form_of_volcano_is_read() -> None:
    groups = read_resource_groups(
        """
        resourceGroups:
        - resourceGroup: management
          object: {key: namespace, value: [a, b]}
          schedulerName: default-scheduler
          labels: {x: y}
          affinity: '{"nodeAffinity": {}}'
        - resourceGroup: gpu
        """
    )

    assert groups[0].object == GroupObject("namespace", ("a", "b"))
    assert (groups[0].scheduler_name, groups[0].labels) == ("default-scheduler", {"x": "y"})
    assert groups[1].object == GroupObject()


@pytest.mark.parametrize("text", ["", "{}", "resourceGroups:", "other: 1"])
def test_a_file_without_groups_has_none(text: str) -> None:
    assert read_resource_groups(text) == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("resourceGroups: 5", "resourceGroups"),
        ("[", "parsing"),
        ("resourceGroups: [{resourceGroup: a, object: {key: color}}]", "neither 'namespace'"),
        ("resourceGroups: [{resourceGroup: a, affinity: '['}]", "no JSON object"),
        ("resourceGroups: [{resourceGroup: a, affinity: '5'}]", "no JSON object"),
        ("resourceGroups: [{resourceGroup: a, labels: [b]}]", "labels"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(text: str, fault: str) -> None:
    with pytest.raises(BadAdmissionConf, match=fault):
        read_resource_groups(text)
