"""What a user of a cluster sees of admission: defaults, Volcano's words, and never a wrong yes."""

import asyncio
import base64
import subprocess
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509

from stromboli.api import kinds
from stromboli.contracts.records import HistoryRecorded
from stromboli.contracts.streams import HISTORY
from stromboli.gateway.webhooks import MUTATING, NAME, VALIDATING
from stromboli.kube import KubeClient
from stromboli.kube.errors import ApiError, KubeError
from stromboli.runtime.bus.connection import BusSettings, connect
from stromboli.runtime.bus.jetstream import JetStream
from stromboli.testkit.admissions import AdmissionStack
from stromboli.testkit.api_server import ApiServer
from stromboli.testkit.certificates import Authority
from stromboli.testkit.kube_objects import ClusterBuilder
from stromboli.testkit.nats_server import NatsServer
from stromboli.testkit.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.timeout(120)]


def bare_job(name: str, **spec: Any) -> dict[str, Any]:
    """As a person writes it, with everything left out that may be."""
    container = {"name": "main", "image": "busybox", "command": ["sleep", "1"]}
    template = {"spec": {"containers": [container]}}
    return {
        "metadata": {"name": name},
        "spec": {"tasks": [{"replicas": 2, "template": template}], **spec},
    }


async def with_default_queue(cluster: ClusterBuilder) -> None:
    """The controllers make it; here nobody else does."""
    await cluster.queue("default")


async def test_a_bare_job_is_stored_with_its_defaults(
    stack: AdmissionStack, cluster: ClusterBuilder
):
    await with_default_queue(cluster)
    await cluster.make("vcjob", bare_job("bare"))

    stored = await cluster.fetch("vcjob", "bare")
    assert stored is not None
    spec = stored["spec"]
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"]) == ("default", "volcano", 3)
    assert (spec["minAvailable"], spec["tasks"][0]["name"]) == (2, "default0")


async def test_a_bad_job_is_refused_in_volcanos_words(
    stack: AdmissionStack, cluster: ClusterBuilder
):
    await with_default_queue(cluster)

    with pytest.raises(ApiError) as refused:
        await cluster.make("vcjob", bare_job("bad", minAvailable=9))

    assert 'admission webhook "validatejob.volcano.sh" denied the request:' in str(refused.value)
    assert "'minAvailable' should not be greater than total replicas" in str(refused.value)


async def test_an_unknown_queue_is_looked_up_and_then_refused(
    stack: AdmissionStack, cluster: ClusterBuilder
):
    with pytest.raises(ApiError, match="unable to find job queue"):
        await cluster.make("vcjob", bare_job("lost", queue="nowhere"))


async def test_one_file_with_a_queue_and_its_job_applies(
    stack: AdmissionStack, cluster: ClusterBuilder, tmp_path: Path
):
    file = tmp_path / "both.yaml"
    file.write_text(
        textwrap.dedent("""\
            apiVersion: scheduling.volcano.sh/v1beta1
            kind: Queue
            metadata: {name: fresh}
            spec: {weight: 2}
            ---
            apiVersion: batch.volcano.sh/v1alpha1
            kind: Job
            metadata: {name: in-fresh, namespace: default}
            spec:
              queue: fresh
              tasks:
              - replicas: 2
                template:
                  spec:
                    containers: [{name: main, image: busybox}]
            """)
    )
    done = await asyncio.to_thread(
        subprocess.run,
        ["kubectl", "--kubeconfig", stack.api.kubeconfig, "apply", "-f", file],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "job.batch.volcano.sh/in-fresh created" in done.stdout
    stored = await cluster.fetch("vcjob", "in-fresh")
    assert stored is not None
    assert stored["spec"]["minAvailable"] == 2


async def history(stack: AdmissionStack) -> list[HistoryRecorded]:
    async with connect(BusSettings(url=stack.nats.url), "operator") as connection:
        jetstream = JetStream(connection)
        found: list[HistoryRecorded] = []
        for name in ("seen", "only-asked"):
            last = await jetstream.last_message(HISTORY.name, f"vc.history.default.{name}")
            if last is not None:
                found.append(msgspec.msgpack.decode(last.payload, type=HistoryRecorded))
        return found


async def test_a_review_is_in_the_jobs_history_under_its_uid_and_a_dry_run_is_not(
    stack: AdmissionStack, cluster: ClusterBuilder
):
    await with_default_queue(cluster)
    body = {"apiVersion": kinds.VC_JOB.api_version, "kind": "Job", **bare_job("only-asked")}
    await cluster.kube.create(kinds.VC_JOB, "default", body, field_manager="test", dry_run=True)
    made = await cluster.make("vcjob", bare_job("seen"))

    async def is_there() -> bool:
        return bool(await history(stack))

    await eventually(is_there, describe="the review is in the history")
    (line,) = await history(stack)
    assert (line.job, line.uid, line.what) == ("seen", made.uid, "job.reviewed")
    assert line.detail["outcome"] == "allowed"


async def test_while_nats_is_away_jobs_are_judged_by_what_is_known_with_a_warning(
    stack: AdmissionStack, cluster: ClusterBuilder, tmp_path: Path
):
    await with_default_queue(cluster)
    await cluster.make("vcjob", bare_job("before"))
    stack.nats.kill()
    await stack.admission.until_event("bus.disconnected")

    await cluster.make("vcjob", bare_job("after"))
    with pytest.raises(ApiError, match="unable to find job queue"):
        await cluster.make("vcjob", bare_job("lost", queue="nowhere"))

    done = await asyncio.to_thread(
        subprocess.run,
        ["kubectl", "--kubeconfig", stack.api.kubeconfig, "create", "-f", "-"],
        input=msgspec.json.encode(
            {"apiVersion": kinds.VC_JOB.api_version, "kind": "Job", **bare_job("warned")}
        ),
        capture_output=True,
        check=False,
    )
    assert b"Warning: admission has lost its connection to NATS" in done.stderr


async def test_before_anything_is_known_nothing_is_accepted_that_hangs_on_it(
    stack: AdmissionStack, cluster: ClusterBuilder
):
    """A second admission that never saw NATS: it answers, and says that it can't judge yet."""
    await with_default_queue(cluster)
    stack.admission.kill()
    stack.nats.kill()
    await stack.start_admission("blind").https_url()

    with pytest.raises(ApiError) as refused:
        await cluster.make("vcjob", bare_job("too-early"))

    assert refused.value.code in {500, 503}
    assert "try again" in str(refused.value)


async def test_our_kinds_wait_for_an_admission_that_is_away_and_pods_do_not(
    stack: AdmissionStack, cluster: ClusterBuilder
):
    stack.admission.kill()

    with pytest.raises(KubeError, match="webhook"):
        await cluster.make("vcjob", bare_job("unseen"))
    await cluster.pod("goes-on")


async def test_configurations_that_somebody_deleted_are_put_right_again(
    stack: AdmissionStack, cluster: ClusterBuilder
):
    stack.gateway.kill()
    for resource in (MUTATING, VALIDATING):
        await cluster.kube.delete(resource, None, NAME)
    await stack.start_gateway("second").until_event("webhooks.registered", 40)

    with pytest.raises(ApiError, match="denied the request"):
        await cluster.make("vcjob", bare_job("lost", queue="nowhere"))


class TestRotation:
    @pytest.fixture
    def webhook_settings(self) -> dict[str, str]:
        """An authority lasts nine seconds, and is replaced after six."""
        return {
            "AUTHORITY_LIFE": "9s",
            "CERTIFICATE_LIFE": "6s",
            "SETTLE": "1s",
            "OVERLAP": "500ms",
        }

    async def test_no_job_is_refused_while_authorities_follow_each_other(
        self, stack: AdmissionStack, cluster: ClusterBuilder
    ):
        await with_default_queue(cluster)
        bundles: list[int] = []
        serials: set[str] = set()
        count = 0

        async def is_over() -> bool:
            nonlocal count
            count += 1
            await cluster.make("vcjob", bare_job(f"during-{count}"))
            bundles.append(len(await trusted(cluster.kube)))
            serials.update(
                event["serial"] for event in stack.admission.events("certificate.loaded")
            )
            made = stack.gateway.events("certificates.authority")
            forgotten = stack.gateway.events("certificates.former_forgotten")
            return len(made) >= 3 and len(forgotten) >= 2

        await eventually(is_over, deadline_s=40, interval_s=0.1, describe="two rotations")

        assert set(bundles) == {1, 2}
        assert len(serials) >= 3
        assert count > 20


class TestGivenFiles:
    @pytest.fixture
    def webhook_settings(self, tmp_path: Path) -> dict[str, str]:
        """Somebody else makes the certificates; the gateway is told whom to trust."""
        authority = Authority(tmp_path / "certificates")
        authority.server("tls")
        return {"FOLDER": "", "CA_FILE": str(authority.certificate)}

    async def test_certificates_of_somebody_else_serve_as_well(
        self, stack: AdmissionStack, cluster: ClusterBuilder
    ):
        with pytest.raises(ApiError, match="denied the request"):
            await cluster.make("vcjob", bare_job("lost", queue="nowhere"))
        assert not stack.gateway.events("certificates.authority")


class TestSecrets:
    @pytest.fixture
    def webhook_settings(self) -> dict[str, str]:
        return {"FOLDER": "", "NAMESPACE": "default", "SECRET": "made"}

    @pytest.fixture
    async def stack(
        self,
        tmp_path: Path,
        nats_server: NatsServer,
        own_api_server: ApiServer,
        webhook_settings: dict[str, str],
    ) -> AsyncIterator[AdmissionStack]:
        """Without an admission: in a cluster its files are a mounted Secret."""
        stack = AdmissionStack(tmp_path, nats_server, own_api_server, webhook_settings)
        await stack.start_gateway().until_event("webhooks.registered", 40)
        yield stack
        stack.gateway.kill()

    async def test_certificates_are_kept_in_secrets_and_outlive_the_gateway(
        self, stack: AdmissionStack, cluster: ClusterBuilder
    ):
        served = await cluster.fetch("secret", "made")
        authority = await cluster.fetch("secret", "made-authority")
        assert served is not None
        assert authority is not None
        assert set(served["data"]) == {"ca.crt", "tls.crt", "tls.key"}
        assert set(authority["data"]) == {"ca.crt", "ca.key", "former.crt"}
        assert len(await trusted(cluster.kube)) == 1

        stack.gateway.kill()
        await stack.start_gateway("second").until_event("webhooks.registered", 40)
        assert await cluster.fetch("secret", "made") == served
        assert "PRIVATE KEY" not in stack.gateway.log_text()


async def trusted(kube: KubeClient) -> list[x509.Certificate]:
    found = msgspec.json.decode(await kube.get(VALIDATING, None, NAME))
    bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])
    return x509.load_pem_x509_certificates(bundle)
