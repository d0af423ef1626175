"""The output of helm as a list of objects."""

from __future__ import annotations

import pytest

from windlass.environments.render import manifests
from windlass.environments.render.manifests import RenderRefused

OUTPUT = b"""---
# Source: shop/templates/config.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  text: |
    ---
    # Source: not/a/template
---
# Source: shop/templates/config.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: b}
---
# Source: shop/templates/empty.yaml
---
# Source: shop/charts/db/templates/job.yaml
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {helm.sh/hook: "post-install,pre-upgrade,pre-delete"}
---
# Source: shop/templates/tests/smoke.yaml
apiVersion: v1
kind: Pod
metadata:
  name: smoke
  annotations: {helm.sh/hook: test}
"""


def test_objects_know_the_template_they_come_from() -> None:
    """Text blocks stay text; hooks are separated from objects, and skipped ones are named."""
    chart = manifests.read_chart(OUTPUT)
    objects = {row.object["metadata"]["name"]: row for row in chart.manifests}
    assert sorted(objects) == ["a", "b", "migrate"]
    assert objects["a"].file == "shop/templates/config.yaml"
    assert objects["a"].object["data"]["text"] == "---\n# Source: not/a/template\n"
    assert objects["migrate"].file == "shop/charts/db/templates/job.yaml"
    assert objects["a"].hook is None
    hook = objects["migrate"].hook
    assert hook is not None
    assert (hook.at_install, hook.at_upgrade) == ("postDeploy", "preDeploy")
    assert chart.skipped_hooks == (
        "Job/migrate is not run as a pre-delete hook",
        "Pod/smoke is not run as a test hook",
    )


def test_a_document_that_names_no_template_is_read_all_the_same() -> None:
    """Its file is then the chart."""
    chart = manifests.read_chart(b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    assert [row.file for row in chart.manifests] == ["chart"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (b"", "no object"),
        (b"---\n# Source: a/b.yaml\n# off\n\n", "no objects with these values"),
        (OUTPUT[OUTPUT.index(b"---\n# Source: shop/templates/tests") :], "hooks"),
        (b"---\n# Source: a/b.yaml\nkind: X\n", "a/b.yaml"),
        (b"---\n# Source: a/b.yaml\n{", "a/b.yaml"),
    ],
)
def test_output_without_objects_is_refused(output: bytes, message: str) -> None:
    """An empty bundle would prune everything that runs."""
    with pytest.raises(RenderRefused, match=message) as caught:
        manifests.read_chart(output)
    assert caught.value.reason == "RenderFailed"
