"""The cases that the CRD schema refuses, and that no rule needs to repeat."""

from typing import Final

import pytest

from stromboli.admitting.reviewing import PATHS
from stromboli.kube import KubeClient, Resource
from stromboli.kube.errors import ApiError, Invalid
from stromboli.testkit.admission_cases import AdmissionCase, load_cases

pytestmark = pytest.mark.e2e

_RESOURCES: Final = {each.kind: each.resource for each in PATHS.values()}
CASES: Final = [case for case in load_cases() if case.needs_schema]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
async def test_the_schema_refuses_it_in_the_words_that_volcano_users_know(
    real_kube: KubeClient, case: AdmissionCase
) -> None:
    of = _RESOURCES[case.kind]
    kind = Resource(of.group, of.version, of.resource, namespaced=not case.is_cluster_wide)
    namespace = "default" if kind.namespaced else None

    with pytest.raises(ApiError) as refusal:
        await real_kube.create(kind, namespace, case.object, field_manager="e2e", dry_run=True)

    assert isinstance(refusal.value, Invalid)
    for part in case.expect.refused:
        assert part in str(refusal.value)
