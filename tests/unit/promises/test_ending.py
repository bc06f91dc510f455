"""A gateway that is told to end does so, whatever else happens at that moment."""

import asyncio
from random import Random

from stromboli.testkit.promise_machine import GATEWAY, Machine
from stromboli.testkit.virtual_time import run_virtually


def test_a_gateway_ends_that_is_told_to_just_when_it_finds_its_lease_lost() -> None:
    async def life() -> None:
        machine = Machine(Random(0), cpus=(1,))
        async with machine.running():
            await machine.until(lambda: machine.leader(GATEWAY), what="a leader")
            gateway = machine.leader(GATEWAY)
            assert gateway is not None
            gateway.process.freeze()
            await asyncio.sleep(10)
            gateway.process.thaw()
            async with asyncio.timeout(20):
                await gateway.stop()

    run_virtually(life())
