"""`stromboli-admission`: read the settings, open the connections, answer reviews."""

import sys
from pathlib import Path

from stromboli.admission.bus import BusSide
from stromboli.admission.certificates import ServingCertificate
from stromboli.admission.conf_file import ConfFile
from stromboli.admission.config import AdmissionSettings
from stromboli.admission.errors import UnusableConf
from stromboli.admission.facts import ClusterFacts
from stromboli.admission.https import Answer, Front, listening
from stromboli.admission.lookup import QueueLookup
from stromboli.admission.reviewing import Reviewer
from stromboli.admitting.reviewing import PATHS
from stromboli.contracts.permissions import ADMISSION
from stromboli.kube import KubeClient
from stromboli.runtime.clock import SystemClock
from stromboli.runtime.health import Health, HealthServer, NotReady, Ok
from stromboli.runtime.process import ExitCode, Lifetime, Step, run_service
from stromboli.runtime.settings import load_or_exit
from stromboli.runtime.telemetry import Telemetry

EXAMPLES = (
    "stromboli-admission --https-certificate tls.crt --https-key tls.key --kube-in-cluster",
    "stromboli-admission --admission-conf groups.yaml --bus-url nats://127.0.0.1:4222",
)


async def serve(settings: AdmissionSettings, conf: ConfFile, life: Lifetime) -> None:
    """Run until told to stop; then serve for a time of grace, and answer what was asked."""
    clock = SystemClock()
    telemetry = Telemetry.start(ADMISSION)
    health = Health(watchdog=life.watchdog)
    https = settings.https
    facts = ClusterFacts()
    bus = BusSide(settings.bus, facts, clock)
    certificate = ServingCertificate(https.certificate, https.key, https.look_every)

    def serving() -> Ok | NotReady:
        reason = certificate.not_serving(clock.now())
        if reason is None and not life.is_serving:
            reason = "not listening yet"
        return Ok(f"until {certificate.expires}") if reason is None else NotReady(reason)

    def staying() -> Ok | NotReady:
        return NotReady("about to end: ask another one") if life.is_stopping else Ok("serving")

    def synced() -> Ok | NotReady:
        reason = facts.not_ready
        return Ok(facts.doubt) if reason is None else NotReady(reason)

    def page_ready() -> Answer:
        report = health.readiness()
        return Answer(200 if report.passed else 503, report.as_text().encode(), "text/plain")

    health.check("process", staying)
    health.check("certificate", serving)
    health.check("state", synced)
    async with (
        HealthServer(health, settings.health, metrics=telemetry.render),
        KubeClient.connect(settings.kube.access) as kube,
    ):
        lookup = QueueLookup(
            kube, clock, settings.kube.lookup_timeout, settings.kube.remember_missing
        )
        reviewer = Reviewer(
            facts,
            lambda: conf.current,
            lookup,
            clock,
            bus.record,
            telemetry.tracer() if telemetry.is_tracing else None,
        )
        pages = {"/healthz": lambda: Answer(200, b"ok\n", "text/plain"), "/readyz": page_ready}
        front = Front(https, tuple(PATHS), reviewer.answer, pages)
        life.spawn("bus", bus.run(), until=Step.DRAIN)
        life.spawn("certificate", certificate.watch(), until=Step.CLOSE)
        life.spawn("conf", conf.watch(), until=Step.CLOSE)
        await certificate.loaded()
        async with listening(front, https, certificate.listening_context()) as listener:
            leaving_s = https.grace + 2 * https.patience + 1
            life.at(Step.STOP_INTAKE, "https", listener.stop, deadline_s=leaving_s)
            await life.serve()
        await lookup.close()
    await telemetry.shutdown()


def main() -> None:
    settings = load_or_exit(AdmissionSettings, service=ADMISSION, examples=EXAMPLES)
    given = Path(settings.admission_conf) if settings.admission_conf else None
    try:
        conf = ConfFile(settings.judging(), given)
    except UnusableConf as problem:
        print(f"stromboli-admission: {problem}", file=sys.stderr)
        sys.exit(ExitCode.BAD_SETTINGS)

    async def live(life: Lifetime) -> None:
        await serve(settings, conf, life)

    sys.exit(run_service(live, service=ADMISSION, log_settings=settings.log))


if __name__ == "__main__":
    main()
