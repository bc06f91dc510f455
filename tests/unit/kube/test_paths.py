import pytest

from stromboli.kube.errors import BadCall
from stromboli.kube.paths import (
    PODS,
    Resource,
    group_version_path,
    object_path,
    resource_path,
)

NODES = Resource("", "v1", "nodes", namespaced=False)
JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", namespaced=True)


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "subresource", "path"),
    [
        (PODS, "n", "p", "", "/api/v1/namespaces/n/pods/p"),
        (PODS, "n", "p", "binding", "/api/v1/namespaces/n/pods/p/binding"),
        (NODES, None, "n1", "", "/api/v1/nodes/n1"),
        (JOBS, "n", "j", "status", "/apis/batch.volcano.sh/v1alpha1/namespaces/n/jobs/j/status"),
    ],
)
def test_the_path_of_an_object(
    kind: Resource, namespace: str | None, name: str, subresource: str, path: str
) -> None:
    assert object_path(kind, namespace, name, subresource) == path


def test_the_path_of_a_list() -> None:
    assert resource_path(PODS) == "/api/v1/pods"
    assert resource_path(PODS, "n") == "/api/v1/namespaces/n/pods"


def test_the_path_of_a_group() -> None:
    assert group_version_path(PODS) == "/api/v1"
    assert group_version_path(JOBS) == "/apis/batch.volcano.sh/v1alpha1"


@pytest.mark.parametrize(
    "name", ["p/binding", "..", ".", "a%2Fb", "../../../apis", "a?dryRun=All", "a#b", "a\\b"]
)
def test_a_name_that_is_a_path_is_refused(name: str) -> None:
    """API servers split paths after decoding them: quoting does not make a slash harmless."""
    with pytest.raises(BadCall):
        object_path(PODS, "n", name)
    with pytest.raises(BadCall):
        resource_path(PODS, name)


def test_an_object_without_a_name_is_refused() -> None:
    """Otherwise a delete without a name would be a delete of everything."""
    with pytest.raises(BadCall, match="needs a name"):
        object_path(PODS, "n", "")


def test_an_object_without_its_namespace_is_refused() -> None:
    with pytest.raises(BadCall, match="namespace"):
        object_path(PODS, None, "p")


def test_a_namespace_where_there_is_none_is_refused() -> None:
    with pytest.raises(BadCall, match="namespace"):
        object_path(NODES, "n", "n1")
