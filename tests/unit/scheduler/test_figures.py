"""What a dashboard sees of the queues."""

from collections.abc import AsyncIterator

import pytest

from stromboli.contracts.stimuli import Ready
from stromboli.runtime.telemetry import Telemetry
from stromboli.scheduler.configuration import Configuration
from stromboli.scheduler.figures import Figures, buckets
from stromboli.scheduler.reloading import ReloadingCore
from stromboli.scheduling.conf import SchedulingConf
from stromboli.scheduling.tally import Notes


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


def of_queues(telemetry: Telemetry) -> list[str]:
    return [line for line in shown(telemetry) if line.startswith("volcano_queue_")]


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

    assert sorted(of_queues(telemetry)) == [
        'volcano_queue_allocated_memory_bytes{queue_name="q"} 1024.0',
        'volcano_queue_deserved_scalar_resources{queue_name="q",resource="nvidia.com/gpu"} 4000.0',
        'volcano_queue_share{queue_name="q"} 0.5',
    ]


def test_a_queue_that_is_gone_has_no_figures(telemetry: Telemetry):
    figures = Figures()
    figures.show({("queue_weight", (("queue_name", "old"),)): 1.0})

    figures.show({("queue_weight", (("queue_name", "new"),)): 2.0})

    assert of_queues(telemetry) == ['volcano_queue_weight{queue_name="new"} 2.0']


def test_figures_are_not_taken_after_every_decision():
    figures = Figures()

    assert [figures.is_due(now) for now in (100.0, 101.0, 104.9, 105.0)] == [
        True,
        False,
        False,
        True,
    ]


def test_what_a_cycle_did_is_counted_with_volcanos_names_labels_and_buckets(telemetry: Telemetry):
    notes = Notes(
        spans_s=[("cycle", "", 0.02), ("opening", "", 0.001), ("action", "allocate", 0.01)],
        plugins_s=[("gang", "OnSessionOpen", 0.0002)],
        waits_s=[1.5],
    )
    notes.attempts["scheduled"] += 2
    notes.evictions["preempt"] += 1
    notes.victims = 3
    figures = Figures()
    figures.count(notes)
    figures.count(Notes())
    figures.show({}, waiting=7)

    lines = shown(telemetry)
    assert {
        "volcano_e2e_scheduling_latency_milliseconds_count 1.0",
        "volcano_e2e_scheduling_latency_milliseconds_sum 20.0",
        "volcano_open_session_duration_milliseconds_count 1.0",
        'volcano_action_scheduling_latency_milliseconds_count{action="allocate"} 1.0',
        "volcano_e2e_job_scheduling_latency_milliseconds_sum 1500.0",
        'volcano_schedule_attempts_total{result="scheduled"} 2.0',
        'volcano_eviction_transactions_total{action="preempt"} 1.0',
        "volcano_total_preemption_attempts 1.0",
        "volcano_pod_preemption_victims 3.0",
        "volcano_unschedule_job_count 7.0",
    } <= set(lines)
    plugin = [line for line in lines if line.startswith("volcano_plugin_scheduling_latency_milli")]
    assert any(
        'OnSession="OnSessionOpen"' in line and 'plugin="gang"' in line and "_count" in line
        for line in plugin
    )


def test_buckets_run_from_volcanos_first_to_its_last():
    assert [round(edge, 3) for edge in buckets(1, 5000, 20)][:3] == [1.0, 1.566, 2.451]
    assert round(buckets(1, 5000, 20)[-1]) == 5000
    assert len(buckets(100, 120_000, 30)) == 30


def test_a_scheduler_that_decides_has_figures(telemetry: Telemetry):
    core = ReloadingCore(Configuration(SchedulingConf()))
    core.handle(Ready(), now=0.0)

    assert "volcano_e2e_scheduling_latency_milliseconds_count 1.0" in shown(telemetry)
