"""A job gets back the secrets of its template that the bus does not show, and no others."""

from typing import Any

import msgspec

from stromboli.contracts.intents import CreateObject
from stromboli.contracts.outcomes import Reason
from stromboli.gateway.refusals import Refusal
from stromboli.gateway.restoring import needs_restoring, restored, sources_of

PEM = "-----BEGIN RSA PRIVATE KEY-----"
CRON = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "CronJob",
    "name": "tick",
    "uid": "u1",
    "controller": True,
}
FLOW = {**CRON, "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "f"}


def wish(
    plugins: dict[str, list[str]], owner: dict[str, Any] | None = None, template: str = ""
) -> CreateObject:
    manifest = {
        "metadata": {
            "name": "j",
            "namespace": "n",
            "ownerReferences": [owner or CRON],
            "annotations": {"volcano.sh/createdByJobTemplate": template},
        },
        "spec": {"plugins": plugins},
    }
    return CreateObject(
        id="i",
        key="k",
        service="controllers",
        kind="vcjob",
        namespace="n",
        name="j",
        owner_uid="u1",
        manifest=msgspec.json.encode(manifest),
    )


def live(plugins: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"spec": {"jobTemplate": {"spec": {"plugins": plugins}}}})


def plugins_of(manifest: bytes | Refusal) -> dict[str, list[str]]:
    assert isinstance(manifest, bytes)
    return msgspec.json.decode(manifest)["spec"]["plugins"]


def test_only_jobs_with_something_redacted_are_looked_at():
    assert needs_restoring(wish({"ssh": ["--ssh-private-key=[redacted]"]}))
    assert not needs_restoring(wish({"ssh": ["--no-root"]}))


def test_the_arguments_come_from_the_live_object():
    wanted = wish({"ssh": ["--ssh-private-key=[redacted]", "--x"], "svc": ["--y"]})
    source = live({"ssh": [f"--ssh-private-key={PEM}", "--x"], "svc": ["--z"]})

    assert plugins_of(restored(wanted, [source])) == {
        "ssh": [f"--ssh-private-key={PEM}", "--x"],
        "svc": ["--y"],
    }


def test_arguments_that_are_others_by_now_are_not_taken():
    wanted = wish({"ssh": ["--ssh-private-key=[redacted]", "--x"]})
    for other in ({"ssh": [f"--ssh-private-key={PEM}"]}, {"mpi": ["--x"]}, {"ssh": PEM}, {}):
        refusal = restored(wanted, [live(other)])

        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.STALE
        assert PEM not in refusal.message


def test_a_job_of_a_flow_has_two_sources():
    sources = list(sources_of(wish({}, FLOW, "n.a.b")))

    assert [(kind.token, name, uid) for kind, name, uid in sources] == [
        ("jobflow", "f", "u1"),
        ("jobtemplate", "a.b", ""),
    ]


def test_a_template_of_another_namespace_is_no_source():
    sources = sources_of(wish({}, template="other.a"))

    assert [kind.token for kind, _, _ in sources] == ["vccronjob"]


def test_an_owner_that_is_no_template_is_no_source():
    stranger = {**CRON, "kind": "Queue", "apiVersion": "scheduling.volcano.sh/v1beta1"}

    assert list(sources_of(wish({}, stranger))) == []
