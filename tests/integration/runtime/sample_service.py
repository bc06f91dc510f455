"""A service that does nothing but live: what the tests of `run_service` start and stop."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from stromboli.runtime import crashpoints
from stromboli.runtime.health import HealthServer, HealthSettings
from stromboli.runtime.logs import LogSettings, get_logger
from stromboli.runtime.process import Lifetime, Step, run_service
from stromboli.runtime.settings import Duration, load_or_exit
from stromboli.runtime.telemetry import Telemetry, counter

log = get_logger(__name__)

TICKS = counter("sample.ticks", "How often the sample has ticked.")
TICKED = crashpoints.declare("sample.tick.done", "a tick was counted")


class SampleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service that ticks."""

    tick: Annotated[Duration, Meta(description="Time between two ticks.")] = Duration(0.02)
    trouble: Annotated[str, Meta(description="Which fault to show.")] = ""
    drain: Annotated[Duration, Meta(description="Time for stopping.")] = Duration(2)
    health: HealthSettings = HealthSettings(port=0)
    log: LogSettings = LogSettings()


async def tick(settings: SampleSettings) -> None:
    while True:
        await asyncio.sleep(settings.tick)
        TICKS.add()
        log.debug("sample.ticked")
        crashpoints.reach(TICKED)
        match settings.trouble:
            case "die":
                raise ZeroDivisionError("the sample was told to die")
            case "return":
                return
            case "stall":
                time.sleep(1.5)  # noqa: ASYNC251 - the fault under test
                settings = msgspec.structs.replace(settings, trouble="")
            case _:
                pass


async def never() -> None:
    await asyncio.Event().wait()


async def main(life: Lifetime, settings: SampleSettings) -> None:
    telemetry = Telemetry.start("sample")
    async with HealthServer(life.health, settings.health, metrics=telemetry.render):
        if settings.trouble == "setup":
            await never()
        if settings.trouble == "raise":
            raise KeyError("no such thing")
        life.spawn("tick", tick(settings), until=Step.STOP_INTAKE)
        for step in reversed(Step):
            life.at(step, f"first of {step.name}", step_taken(step, "first"))
            life.at(step, f"second of {step.name}", step_taken(step, "second"))
        life.at(Step.CLOSE, "telemetry", telemetry.shutdown)
        if settings.trouble == "slow-step":
            life.at(Step.PUBLISH, "hangs", never, deadline_s=0.2)
        if settings.trouble == "stuck-loop":
            life.at(Step.DRAIN, "blocks", block)
        await life.serve()
    log.info("sample.closed")


def step_taken(step: Step, which: str) -> Callable[[], Awaitable[None]]:
    async def take() -> None:
        log.info("sample.stepped", step=step.name, which=which)

    return take


async def block() -> None:
    time.sleep(30)  # noqa: ASYNC251 - the fault under test


if __name__ == "__main__":
    given = load_or_exit(SampleSettings, service="sample")
    sys.exit(
        run_service(
            lambda life: main(life, given),
            service="sample",
            log_settings=given.log,
            drain_deadline_s=given.drain,
        )
    )
