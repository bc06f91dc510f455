"""Every row of pod templates, put to kube-apiserver: admission must say the same."""

import pytest

from stromboli.api.kinds import POD
from stromboli.kube import KubeClient
from stromboli.kube.errors import ApiError
from stromboli.testkit.template_rows import TemplateRow, load_rows

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("row", load_rows(), ids=lambda row: row.case)
async def test_kube_apiserver_judges_the_template_as_we_do(
    real_kube: KubeClient, row: TemplateRow
) -> None:
    template = row.template
    metadata = {**template["metadata"], "name": "probe"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    refusal = ""
    try:
        await real_kube.create(POD, "default", pod, field_manager="e2e", dry_run=True)
    except ApiError as fault:
        refusal = str(fault)

    assert bool(refusal) != row.valid, refusal or "kube-apiserver accepts it"
