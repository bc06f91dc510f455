"""The file of resource groups: a bad one is refused at the start and ignored later."""

from pathlib import Path

import pytest

from stromboli.admission.conf_file import ConfFile
from stromboli.admission.errors import UnusableConf
from stromboli.admitting.conf import AdmissionConf

GOOD = "resourceGroups: [{resourceGroup: cpu, schedulerName: volcano, labels: {a: b}}]"
FLAGS = AdmissionConf(max_queue_depth=3)


def test_groups_come_from_the_file_and_the_rest_from_the_flags(tmp_path: Path):
    path = tmp_path / "conf.yaml"
    path.write_text(GOOD)
    conf = ConfFile(FLAGS, path)

    assert [group.resource_group for group in conf.current.resource_groups] == ["cpu"]
    assert conf.current.max_queue_depth == 3


@pytest.mark.parametrize("text", ["resourceGroups: 7", "a: [", "\x00"])
def test_a_bad_file_is_refused_at_the_start(tmp_path: Path, text: str):
    path = tmp_path / "conf.yaml"
    path.write_text(text)

    with pytest.raises(UnusableConf, match=r"conf\.yaml"):
        ConfFile(FLAGS, path)


def test_a_file_that_turns_bad_leaves_the_last_good_one_in_force(tmp_path: Path):
    path = tmp_path / "conf.yaml"
    path.write_text(GOOD)
    conf = ConfFile(FLAGS, path)
    path.write_text("resourceGroups: 7")

    with pytest.raises(UnusableConf):
        conf.read()
    assert len(conf.current.resource_groups) == 1


def test_without_a_file_the_flags_are_all_there_is():
    assert ConfFile(FLAGS, None).current == FLAGS
