"""`python -m stromboli.contracts.guarantees`: what Stromboli promises, and the tests that hold it.

Each promise is one sentence that an operator understands, with the mechanism behind it and the
tests that fail without it. The page in docs is made from this table, and a test of its own fails
if a promise names no test, or one that does not exist.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["GUARANTEES", "Guarantee", "page"]


class Guarantee(msgspec.Struct, frozen=True, kw_only=True):
    """One promise."""

    promise: str
    mechanism: str
    tests: tuple[str, ...]
    """As pytest names them, from the top of the repository: `tests/….py::test_name`."""


_OVERCOMMIT: Final = "tests/unit/promises/test_no_overcommit.py"
_GATEWAY: Final = "tests/faults/gateway"
_RUNTIME: Final = "tests/integration/runtime"
_CLUSTER: Final = "tests/faults/nats_cluster/test_lagging_member.py"

GUARANTEES: Final[tuple[Guarantee, ...]] = (
    Guarantee(
        promise="No node is given more than it has.",
        mechanism="A pod that was asked to be bound takes its room until a fact shows where it is, or "
        "the API server says for certain that it was not bound. A lost message, a lost answer, a dead "
        "process or a wrong clock frees no room.",
        tests=(
            f"{_OVERCOMMIT}::test_nothing_is_over_committed_half_bound_or_lost",
            f"{_OVERCOMMIT}::test_a_bind_whose_acknowledgement_was_lost_keeps_its_room",
            f"{_OVERCOMMIT}::test_a_bind_that_is_executed_long_after_it_was_given_up_finds_its_room",
            "tests/unit/scheduling/test_doubts.py::test_what_may_be_bound_keeps_its_room",
        ),
    ),
    Guarantee(
        promise="What was done is never reported as not done.",
        mechanism="An intent ends as done, as refused (not done, and will not be), or as uncertain, "
        "if the API server was asked and did not answer. An uncertain pod is asked for again, on the "
        "same node, until it is certain.",
        tests=(
            "tests/unit/gateway/test_gangs.py::test_a_bind_without_an_answer_that_does_not_show_is_uncertain",
            f"{_GATEWAY}/test_uncertain_bind.py::test_a_bind_that_was_executed_without_an_answer_is_reported_as_bound",
            f"{_GATEWAY}/test_uncertain_bind.py::test_an_uncertain_pod_outlives_its_gateway",
            f"{_OVERCOMMIT}::test_a_bind_in_doubt_keeps_its_room_and_comes_to_an_end",
        ),
    ),
    Guarantee(
        promise="Everything that is asked for is answered exactly once.",
        mechanism="An intent is sent again, with the same id, until NATS has acknowledged it; its "
        "outcome is stored before the intent is acknowledged. Only outcomes of the gateway whose turn "
        "it is count. What can't be read is answered as well.",
        tests=(
            f"{_GATEWAY}/test_intent_crashes.py::test_an_intent_is_applied_and_answered_once_wherever_the_gateway_dies",
            f"{_RUNTIME}/test_deciding.py::test_an_intent_whose_acknowledgement_was_lost_is_neither_lost_nor_doubled",
            f"{_OVERCOMMIT}::test_a_gateway_that_wakes_after_its_successor_has_answered_changes_nothing",
            "tests/integration/gateway/test_handling.py::test_what_can_not_be_read_is_refused_if_it_says_whose_it_is",
        ),
    ),
    Guarantee(
        promise="Nothing is decided on a view that does not show what was decided before.",
        mechanism="An outcome names a resourceVersion, and is handed to the core when the view has "
        "reached it. A new leader waits for the versions that were written for its predecessor.",
        tests=(
            f"{_RUNTIME}/test_deciding.py::test_an_outcome_is_told_after_the_facts_that_it_speaks_of",
            f"{_RUNTIME}/test_deciding.py::test_a_turn_begins_when_the_view_shows_what_was_done_before",
            f"{_OVERCOMMIT}::test_the_next_scheduler_waits_for_what_its_predecessor_did",
            "tests/unit/runtime/test_intent_book_model.py::test_everything_asked_is_told_once_and_in_order",
        ),
    ),
    Guarantee(
        promise="Nobody waits for ever for what never shows.",
        mechanism="A kind's position passes every event, also one that made no fact: an object that "
        "came and went, one too large for the bus, a change of a field that is not used.",
        tests=(
            "tests/unit/gateway/test_positions.py::test_an_event_that_makes_no_fact_holds_up_nobody",
            "tests/unit/gateway/test_positions.py::test_everything_up_to_a_position_stands_on_state",
            f"{_GATEWAY}/test_fences.py::test_a_write_that_was_undone_before_anybody_saw_it_does_not_hold_up_a_fence",
            f"{_GATEWAY}/test_oversize.py::test_an_object_too_large_for_the_bus_is_put_aside_and_everything_else_goes_on",
        ),
    ),
    Guarantee(
        promise="A leader that was replaced is not heard.",
        mechanism="A new leader's fence stands on INTENT, and its lease says where. What is stored "
        "behind it in another leader's name is refused. Leases are read so that no server that lags "
        "or was replaced can answer. A false fence is refused.",
        tests=(
            f"{_GATEWAY}/test_bad_intents.py::test_a_deposed_leader_is_refused_also_by_a_gateway_that_was_started_later",
            f"{_GATEWAY}/test_fences.py::test_a_false_fence_stops_nobody",
            f"{_OVERCOMMIT}::test_what_a_deposed_scheduler_had_sent_is_refused_when_it_comes_late",
            f"{_CLUSTER}::test_a_confirmed_read_is_not_answered_from_the_past_by_a_replaced_leader",
        ),
    ),
    Guarantee(
        promise="What a dead gateway had begun is known to the next leader.",
        mechanism="What it may have begun is finished by its successor, before a fence is answered. "
        "The answer names the pods of which it is not certain whether they are bound.",
        tests=(
            f"{_OVERCOMMIT}::test_what_a_gateway_had_begun_is_known_after_it_died_with_the_scheduler",
            f"{_OVERCOMMIT}::test_the_next_scheduler_knows_which_binds_are_uncertain",
            f"{_GATEWAY}/test_fences.py::test_the_answer_covers_what_a_gateway_did_that_is_dead_by_now",
        ),
    ),
    Guarantee(
        promise="Clocks may differ by hours.",
        mechanism="Order in one log decides. Lives, leases and silence are measured by each process "
        "on its own monotonic clock.",
        tests=(
            f"{_OVERCOMMIT}::test_clocks_an_hour_apart_change_nothing",
            f"{_GATEWAY}/test_bad_intents.py::test_an_intent_that_waited_for_a_gateway_has_its_whole_life_before_it",
        ),
    ),
    Guarantee(
        promise="A change of leader lists nothing and stops no other service.",
        mechanism="A fence is a barrier for its own service and shard, and is answered from what the "
        "gateway has read of OUTCOME.",
        tests=(
            f"{_GATEWAY}/test_fences.py::test_nothing_is_listed_for_it_and_binds_of_others_go_on_meanwhile",
            f"{_GATEWAY}/test_fences.py::test_it_is_not_answered_while_an_earlier_intent_is_open_and_others_pass_by",
            f"{_GATEWAY}/test_two_leaders.py::test_a_gateway_that_stops_hands_over_at_once",
        ),
    ),
    Guarantee(
        promise="A lease that was lost stays lost.",
        mechanism="Who has once seen that its lease is over stops, and a late renewal does not bring "
        "it back. Facts that may not be written any more hold up nobody.",
        tests=(
            f"{_RUNTIME}/test_leases.py::test_a_lease_that_was_seen_to_be_over_is_not_brought_back_by_a_late_renewal",
            "tests/unit/gateway/test_lanes.py::test_a_fact_that_may_not_be_written_any_more_ends_its_lane_and_stops_its_kind",
            f"{_CLUSTER}::test_a_holder_whose_server_was_replaced_does_not_believe_in_its_lease",
        ),
    ),
    Guarantee(
        promise="The facts become what the cluster is.",
        mechanism="Each fact is written with the sequence that its subject has. After a complete list "
        "nothing of that kind stands beyond it, neither living nor gone. A foreign message shows as a "
        "gap among our own and is compared with the API server.",
        tests=(
            "tests/unit/gateway/test_publishing_model.py::test_state_is_the_cluster_when_everything_has_come_to_rest",
            f"{_GATEWAY}/test_state_repair.py::test_wrong_but_well_formed_facts_are_replaced_by_the_truth",
            f"{_GATEWAY}/test_watch_faults.py::test_a_server_that_was_restored_from_a_backup_is_believed",
        ),
    ),
    Guarantee(
        promise="An empty bus is not an empty cluster.",
        mechanism="Absence means absence only once a kind's position is met in the log that is being "
        "read. Without it nothing is decided, and no object is taken for gone.",
        tests=(
            f"{_GATEWAY}/test_empty_bus.py::test_a_service_that_starts_before_any_gateway_waits_and_decides_nothing",
            f"{_GATEWAY}/test_empty_bus.py::test_a_view_keeps_its_objects_while_the_bus_is_empty_again",
            f"{_GATEWAY}/test_nats_faults.py::test_everything_comes_back_after_all_nats_data_is_lost",
        ),
    ),
    Guarantee(
        promise="Everything is bounded.",
        mechanism="Ends are kept for ten minutes. STATE has a size limit and drops nothing: new "
        "objects wait, and the gateway says so. What a message costs does not grow with what waits.",
        tests=(
            "tests/integration/gateway/test_state_limit.py::test_a_full_state_is_told_and_deletions_make_room_for_the_rest",
            "tests/faults/nats_cluster/test_full_state.py::test_deletions_go_through_while_new_pods_wait_for_room",
            "tests/unit/runtime/bus/test_ordering_model.py::test_what_a_message_costs_does_not_depend_on_how_many_wait",
            "tests/unit/runtime/test_intent_book.py::test_one_key_has_no_more_open_than_it_may",
        ),
    ),
    Guarantee(
        promise="A wake-up that was lost is repaired while the cluster is busy.",
        mechanism="A safety pass has a timer of its own, looks at some waiting jobs at a time, and "
        "counts what it repairs.",
        tests=(
            "tests/unit/runtime/test_safety_timer.py::test_one_fact_a_second_puts_no_pass_off",
            "tests/unit/scheduling/test_safety_pass.py::test_a_lost_wake_up_is_repaired_while_facts_keep_coming_and_is_told",
        ),
    ),
    Guarantee(
        promise="A gang does not stand half bound.",
        mechanism="All pods of a gang are checked before the first is bound. A gang that is bound in "
        "part for longer than its timeout is evicted whole, uncertain pods too.",
        tests=(
            f"{_OVERCOMMIT}::test_a_gang_that_can_not_become_whole_gives_its_room_back",
            "tests/unit/scheduling/test_doubts.py::test_a_gang_half_bound_for_too_long_is_evicted_with_the_pods_in_doubt",
            "tests/unit/gateway/test_gangs.py::test_a_failing_check_binds_nothing_and_says_of_each_pod_what_is_so",
        ),
    ),
    Guarantee(
        promise="A silent gateway or bus ends a turn, and nothing is guessed.",
        mechanism="Who has not heard for half a minute, or could not send for a minute, begins a new "
        "turn of leadership, whose fence makes the unknown known.",
        tests=(
            "tests/unit/runtime/test_intent_book.py::test_a_gateway_that_is_silent_ends_the_turn",
            "tests/unit/runtime/test_intent_book.py::test_a_bus_that_takes_nothing_ends_the_turn",
            f"{_RUNTIME}/test_deciding.py::test_a_gateway_that_does_not_answer_is_waited_for_and_named",
        ),
    ),
)

_PATH: Final = Path("docs/reference/guarantees.md")
_HEAD: Final = """\
# What Stromboli promises

Made from `stromboli.contracts.guarantees` by `make generate`; do not edit. A promise holds while
processes are killed or frozen, connections break, messages are lost, late or repeated, and clocks
differ. `make test` and `make faults` run the tests that are named here.
"""


def page() -> str:
    return _HEAD + "".join(_section(n, row) for n, row in enumerate(GUARANTEES, 1))


def _section(number: int, row: Guarantee) -> str:
    tests = "\n".join(f"- `{test}`" for test in row.tests)
    return f"\n## {number}. {row.promise}\n\n{row.mechanism}\n\nTested by:\n\n{tests}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="The page of promises.")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", metavar="DIR", type=Path, help="write the page below DIR")
    choice.add_argument("--check", metavar="DIR", type=Path, help="fail if the page is another")
    chosen = parser.parse_args()
    if chosen.write is not None:
        (chosen.write / _PATH).write_text(page())
    elif (chosen.check / _PATH).read_text() != page():
        sys.exit(f"{_PATH} is not what the table says; run `make generate`")


if __name__ == "__main__":
    main()
