"""What a dashboard sees of the queues."""

from collections.abc import AsyncIterator

import pytest

from stromboli.runtime.telemetry import Telemetry
from stromboli.scheduler.figures import Figures


@pytest.fixture
async def telemetry() -> AsyncIterator[Telemetry]:
    telemetry = Telemetry.start("test", environ={})
    yield telemetry
    await telemetry.shutdown()


def shown(telemetry: Telemetry) -> list[str]:
    return [
        line
        for line in telemetry.render().body.decode().splitlines()
        if line.startswith("volcano_")
    ]


def test_figures_have_volcanos_names_and_labels(telemetry: Telemetry):
    Figures().show(
        {
            ("queue_share", (("queue_name", "q"),)): 0.5,
            ("queue_allocated_memory_bytes", (("queue_name", "q"),)): 1024.0,
            (
                "queue_deserved_scalar_resources",
                (("queue_name", "q"), ("resource", "nvidia.com/gpu")),
            ): 4000.0,
        }
    )

    assert sorted(shown(telemetry)) == [
        'volcano_queue_allocated_memory_bytes{queue_name="q"} 1024.0',
        'volcano_queue_deserved_scalar_resources{queue_name="q",resource="nvidia.com/gpu"} 4000.0',
        'volcano_queue_share{queue_name="q"} 0.5',
    ]


def test_a_queue_that_is_gone_has_no_figures(telemetry: Telemetry):
    figures = Figures()
    figures.show({("queue_weight", (("queue_name", "old"),)): 1.0})

    figures.show({("queue_weight", (("queue_name", "new"),)): 2.0})

    assert shown(telemetry) == ['volcano_queue_weight{queue_name="new"} 2.0']


def test_figures_are_not_taken_after_every_decision():
    figures = Figures()

    assert [figures.is_due(now) for now in (100.0, 101.0, 104.9, 105.0)] == [
        True,
        False,
        False,
        True,
    ]
