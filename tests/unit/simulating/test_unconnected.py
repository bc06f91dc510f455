"""A simulation has no connection to other servers, and says so."""

import pytest

from stromboli.simulating.conf_text import conf_from
from stromboli.simulating.errors import BadInput
from stromboli.simulating.manifests import Source

ASKING = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: extender
    arguments: {extender.urlPrefix: "http://127.0.0.1:8080", extender.predicateVerb: predicate}
"""


def test_a_configuration_with_an_extender_is_refused_with_the_reason():
    with pytest.raises(BadInput, match=r"my\.conf: the plugin 'extender' asks another server"):
        conf_from(Source("my.conf", ASKING))
