"""The registry says where each kind lives."""

import pytest

from stromboli.api.errors import BadPath, UnknownKind
from stromboli.api.kinds import (
    KINDS,
    LEASE,
    NODE,
    POD,
    QUEUE,
    VC_JOB,
    VC_POD_GROUP,
    by_gvk,
    by_token,
    kind_of,
)
from stromboli.api.meta import KubeObject
from stromboli.api.scheduling import Queue


def test_every_kind_is_found_by_its_token_its_name_and_its_type():
    for kind in KINDS:
        assert by_token(kind.token) is kind
        assert by_gvk(kind.api_version, kind.kind) is kind
        assert kind_of(kind.type()) is kind


def test_tokens_are_those_that_subjects_are_spelt_with():
    assert [kind.token for kind in KINDS] == [
        "pod", "node", "priorityclass", "namespace", "configmap", "service", "secret", "event",
        "lease", "vcjob", "vcpodgroup", "queue", "command",
        "vccronjob", "jobflow", "jobtemplate", "hypernode",
        "replicaset", "statefulset", "daemonset", "k8sjob",
        "networkpolicy", "persistentvolumeclaim",
        "resourcequota", "poddisruptionbudget", "persistentvolume", "storageclass", "csinode",
    ]  # fmt: skip


@pytest.mark.parametrize("token", ["", "job", "k8sJob", "Pod"])
def test_an_unknown_token_is_refused_with_the_known_ones(token: str):
    with pytest.raises(UnknownKind, match="vcpodgroup"):
        by_token(token)


def test_a_kind_of_another_group_is_unknown():
    with pytest.raises(UnknownKind, match="batch/v1 CronJob"):
        by_gvk("batch/v1", "CronJob")
    with pytest.raises(UnknownKind, match="KubeObject"):
        kind_of(KubeObject())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (POD.path(), "/api/v1/pods"),
        (POD.path("ns"), "/api/v1/namespaces/ns/pods"),
        (POD.path("ns", "p", "binding"), "/api/v1/namespaces/ns/pods/p/binding"),
        (NODE.path(name="n"), "/api/v1/nodes/n"),
        (LEASE.path("ns", "l"), "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"),
        (VC_JOB.path("ns"), "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs"),
        (QUEUE.path(name="a.b"), "/apis/scheduling.volcano.sh/v1beta1/queues/a.b"),
        (
            QUEUE.path(name="q", subresource="status"),
            "/apis/scheduling.volcano.sh/v1beta1/queues/q/status",
        ),
        (POD.path("ns", "a b?c#d"), "/api/v1/namespaces/ns/pods/a%20b%3Fc%23d"),
    ],
)
def test_paths_are_those_of_the_api(path: str, expected: str):
    assert path == expected


@pytest.mark.parametrize(
    ("namespace", "name", "subresource"),
    [
        ("", "p", ""),
        ("ns", "", "status"),
        ("ns", "..", ""),
        ("..", "p", ""),
        ("ns", "a/b", ""),
        ("ns", "a%2fb", ""),
        ("ns", "p", "../binding"),
    ],
)
def test_a_path_that_would_mean_something_else_is_refused(
    namespace: str, name: str, subresource: str
):
    with pytest.raises(BadPath, match="no API path for this Pod"):
        POD.path(namespace, name, subresource)


def test_a_cluster_wide_kind_has_no_namespace():
    with pytest.raises(BadPath, match="it has no namespace"):
        QUEUE.path("ns", "q")


def test_volcanos_pod_group_has_no_status_subresource():
    assert not VC_POD_GROUP.status_subresource
    assert QUEUE.status_subresource
    assert (QUEUE.type, QUEUE.singular, QUEUE.list_kind) == (Queue, "queue", "QueueList")
