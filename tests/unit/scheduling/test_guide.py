"""Configurations in the guides are taken as they stand there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stromboli.scheduling.conf_file import read_conf
from stromboli.scheduling.core import SchedulerCore
from stromboli.simulating.manifests import Source
from stromboli.simulating.simulate import load

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "scheduling.md"
BLOCKS: list[str] = re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def is_conf(block: str) -> bool:
    content: Any = yaml.safe_load(block)
    return isinstance(content, dict) and "tiers" in content


CONFS = [block for block in BLOCKS if is_conf(block)]
OBJECTS = [block for block in BLOCKS if "apiVersion" in block]


def test_the_guide_has_configurations_and_objects():
    assert len(CONFS) >= 3
    assert len(OBJECTS) >= 2


@pytest.mark.parametrize("text", CONFS)
def test_a_configuration_of_the_guide_can_be_used(text: str):
    SchedulerCore(read_conf(text))


@pytest.mark.parametrize("text", OBJECTS)
def test_an_object_of_the_guide_is_admitted(text: str):
    _, warnings = load([Source("guide", text)])

    assert warnings == []
