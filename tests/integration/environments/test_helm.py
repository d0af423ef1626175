"""Charts, rendered by the real helm in its sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.support.environments.helm import RELEASE, chart, helm
from tests.support.processes.polling import eventually
from windlass.base import fair_slots
from windlass.base.errors import Stalled
from windlass.environments.render import helm as module
from windlass.environments.render.helm import Helm
from windlass.environments.render.manifests import RenderRefused
from windlass.environments.render.sandbox.child import RenderLimits
from windlass.git.process import Ended

_SEEN = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: seen, namespace: "{{ .Release.Namespace }}"}
data:
  release: "{{ .Release.Name }}"
  upgrade: "{{ .Release.IsUpgrade }}"
  kube: "{{ .Capabilities.KubeVersion }}"
  widgets: "{{ .Capabilities.APIVersions.Has "example.com/v1/Widget" }}"
  first: "{{ .Values.first }}"
  second: "{{ .Values.second }}"
  third: "{{ .Values.third }}"
  lookup: "{{ lookup "v1" "Namespace" "" "" }}"
  host: "{{ getHostByName "localhost" }}"
  above: "{{ .Files.Get "../../../../etc/hostname" }}"
"""


def _hook(name: str, kind: str) -> str:
    return (
        "apiVersion: batch/v1\nkind: Job\n"
        f"metadata: {{name: {name}, annotations: {{helm.sh/hook: {kind}}}}}\n"
    )


@pytest.mark.scenario("E64")
async def test_a_chart_is_rendered_to_its_objects(tmp_path: Path) -> None:
    """It gets release and values, later ones win; no access to cluster, DNS or files."""
    files = chart(
        {
            "seen.yaml": _SEEN,
            "migrate.yaml": _hook("migrate", "pre-install"),
            "try.yaml": _hook("try", "post-install,test"),
        }
    )
    files["values.yaml"] = b"first: chart\nsecond: chart\nthird: chart\n"
    files["crds/widget.yaml"] = b"apiVersion: v1\nkind: Never\nmetadata: {name: x}\n"
    values = [b"second: a\nthird: a\n", json.dumps({"third": "b"}).encode()]
    rendered, again = await helm(tmp_path).template(files, values, RELEASE)
    assert rendered == again
    objects = {obj["metadata"]["name"]: obj for obj in yaml.safe_load_all(rendered)}
    assert set(objects) == {"seen", "migrate", "try"}
    assert objects["migrate"]["metadata"]["annotations"] == {"helm.sh/hook": "pre-install"}
    assert objects["seen"]["metadata"]["namespace"] == "demo-ns"
    assert objects["seen"]["data"] == {
        "release": "demo",
        "upgrade": "false",
        "kube": "v1.35.4",
        "widgets": "true",
        "first": "chart",
        "second": "a",
        "third": "b",
        "lookup": "map[]",
        "host": "",
        "above": "",
    }
    assert not list((tmp_path / "renders").iterdir())


_DEPENDENCY = (
    "dependencies: [{name: redis, version: 1.0.0, repository: 'https://charts.invalid'}]\n"
)


@pytest.mark.scenario("E64")
@pytest.mark.parametrize(
    ("files", "words"),
    [
        (chart({}, more=_DEPENDENCY), r"redis; commit the dependencies"),
        (chart({"a.yaml": '{{ fail "no color" }}'}), r"sample/templates/a.yaml:1:3.*no color"),
        (chart({"a.yaml": '{{ fail "out of memory" }}'}), r"a.yaml:1:3.*out of memory"),
        (chart({"a.yaml": "a: {{ .Values.x.y }}"}), r"sample/templates/a.yaml:1:\d+.*nil pointer"),
        (chart({"a.yaml": "a: [1"}), r"YAML parse error on sample/templates/a.yaml"),
        (
            chart({"a.yaml": '{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}'}),
            "nested",
        ),
        (
            chart({}) | {"values.schema.json": b'{"$ref": "https://schemas.invalid/x.json"}'},
            "schemas.invalid",
        ),
        (
            chart({}) | {"values.schema.json": b'{"$ref": "file:///etc/passwd"}'},
            "file:///etc/passwd",
        ),
        ({"README.md": b"no chart"}, r"Chart.yaml file is missing"),
        (chart({"../../../up.yaml": "a: 1"}), "a file of the chart has an invalid path"),
        (chart({"x\\y.yaml": "a: 1"}), "a file of the chart has an invalid path"),
        (chart({"x" * 300: "a: 1"}), "a file of the chart has an invalid path"),
    ],
    ids=[
        "dependency",
        "fail",
        "fail with words of a runtime",
        "missing value",
        "no YAML",
        "recursion",
        "schema from the network",
        "schema from the disk",
        "no chart",
        "path above",
        "backslash",
        "long name",
    ],
)
async def test_the_fault_of_a_chart_is_reported(
    tmp_path: Path, files: dict[str, bytes], words: str
) -> None:
    """The last lines of helm, without the directory of the render."""
    with pytest.raises(RenderRefused, match=f"(?s){words}") as refused:
        await helm(tmp_path).template(files, [], RELEASE)
    assert refused.value.reason == "RenderFailed"
    assert str(tmp_path) not in str(refused.value)
    assert not list((tmp_path / "renders").iterdir())


@pytest.mark.parametrize(
    ("template", "limits"),
    [
        ("{{ range until 100000000000 }}x{{ end }}", {"memory_bytes": 1 << 20}),
        ("# {{ repeat 3000000 `x` }}", {"output_bytes": 1 << 20}),
        (
            "{{ range until 30000 }}{{ range until 30000 }}{{ end }}{{ end }}",
            {"seconds": 0.5},
        ),
    ],
)
async def test_a_render_is_bounded(tmp_path: Path, template: str, limits: dict[str, float]) -> None:
    """Memory, output and time are limited, and nothing is left behind."""
    with pytest.raises(RenderRefused) as refused:
        await helm(tmp_path, **limits).template(chart({"a.yaml": template}), [], RELEASE)
    assert refused.value.reason == "RenderTooLarge", str(refused.value)
    assert not list((tmp_path / "renders").iterdir())


@pytest.mark.parametrize(("program", "words"), [("", "is not set"), ("no-helm", "no-helm")])
async def test_without_helm_charts_are_refused(tmp_path: Path, program: str, words: str) -> None:
    """The message names the setting."""
    with pytest.raises(Stalled, match=f"environments-helm.*{words}") as stalled:
        await Helm(program, RenderLimits(), tmp_path).template(chart({}), [], RELEASE)
    assert stalled.value.reason == "SandboxUnavailable"


async def test_a_canceled_render_leaves_nothing(tmp_path: Path) -> None:
    """Neither a directory nor a process."""
    renders = tmp_path / "renders"
    slow = chart({"a.yaml": "{{ range until 30000 }}{{ range until 30000 }}{{ end }}{{ end }}"})
    rendering = asyncio.create_task(helm(tmp_path).template(slow, [], RELEASE))

    async def started() -> bool:
        return "helm" in _working_below(renders)

    await eventually(started, "helm runs")
    rendering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rendering
    assert not _working_below(renders)
    assert not list(renders.iterdir())


async def test_slow_charts_of_one_namespace_delay_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them gives its slot to the other namespace, and is rendered again afterwards."""
    ended = asyncio.Event()

    async def run(command: Sequence[str], **_: object) -> Ended:
        if "quick" not in command:
            await ended.wait()
        return Ended(0, b"rendered", b"", overflowed=False)

    monkeypatch.setattr(module.child, "run", run)
    renderer = helm(tmp_path)
    with fair_slots.namespace_context("slow"):
        slow = [asyncio.create_task(renderer.template({}, [], RELEASE)) for _ in range(20)]
    with fair_slots.namespace_context("quick"):
        release = dataclasses.replace(RELEASE, name="quick")
        assert await renderer.template({}, [], release) == (b"rendered", b"rendered")
    assert not any(task.done() for task in slow)
    ended.set()
    assert await asyncio.gather(*slow) == [(b"rendered", b"rendered")] * 20


def _working_below(directory: Path) -> list[str]:
    """The names of processes that work in `directory`."""
    names = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(directory):
                names.append((process / "comm").read_text().strip())
    return names


def test_renders_of_a_killed_operator_are_removed(tmp_path: Path) -> None:
    """The next process starts with an empty directory."""
    left = tmp_path / "renders" / "windlass-git-4194305-x" / "chart"
    left.mkdir(parents=True)
    Helm("helm", RenderLimits(), tmp_path / "renders")
    assert not list((tmp_path / "renders").iterdir())
