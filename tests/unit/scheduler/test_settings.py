"""Settings of the process, and what the core is told of them."""

import msgspec
import pytest

from stromboli.scheduler.config import SchedulerSettings


def test_what_users_of_volcano_pass_as_flags_reaches_the_core():
    conf = SchedulerSettings(
        scheduler_names="volcano, mine",
        default_queue="team",
        node_selector="volcano.sh/role:train,zone:a",
    ).scheduling()

    assert conf.scheduler_names == ("volcano", "mine")
    assert conf.default_queue == "team"
    assert conf.node_selector == (("volcano.sh/role", "train"), ("zone", "a"))


def test_without_a_selector_all_nodes_are_used():
    assert SchedulerSettings().scheduling().node_selector == ()


@pytest.mark.parametrize("text", ["zone=a", "zone", "a:b:c", "a:b,,c:d"])
def test_a_selector_that_is_none_is_refused(text: str):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"node_selector": text}, SchedulerSettings)
