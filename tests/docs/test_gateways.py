"""What docs/gateways.md documents about pods is what the code reads."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, get_type_hints

import typer
import yaml

from windlass.cli.agent import agent
from windlass.gateways.status.pod_discovery import AGENT_CONTAINER
from windlass.gateways.tree import gateway_pod
from windlass.gateways.wire.routing import ANNOTATION_PREFIX

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "gateways.md").read_text()


def _example() -> Any:
    block = re.search(r"```yaml\n(.*?)```", _PAGE, re.DOTALL)
    assert block is not None
    return yaml.safe_load(block[1])


def _options() -> dict[str, typer.models.OptionInfo]:
    hints = get_type_hints(agent, include_extras=True)
    found = {name: hints[name].__metadata__[0] for name in inspect.signature(agent).parameters}
    return {one.envvar: one for one in found.values() if one.envvar}


def test_every_annotation_of_a_pod_is_described() -> None:
    """The table has each annotation that is read, and no other."""
    sources = (_ROOT / "src" / "windlass" / "gateways").rglob("*.py")
    read = {
        name
        for path in sources
        for name in re.findall(r'\.annotation\("([a-z-]+)"', path.read_text())
    }
    literal = re.compile(r"_LITERAL_ANNOTATIONS = \((.*?)\)", re.DOTALL)
    text = (_ROOT / "src/windlass/gateways/tree/gateway_pod.py").read_text()
    found = literal.search(text)
    assert found is not None
    read |= set(re.findall(r'"([a-z-]+)"', found[1]))
    rows = set(re.findall(r"^\| `([a-z-]+)` \|", _PAGE, re.MULTILINE))
    assert rows == read == gateway_pod.KNOWN_ANNOTATIONS


def test_the_example_sidecar_is_valid() -> None:
    """Its name, variables and mounts are those that the agent and the controller read."""
    pod = _example()
    assert pod["metadata"]["annotations"][f"{ANNOTATION_PREFIX}inject"] == "true"
    (sidecar,) = pod["spec"]["initContainers"]
    assert (sidecar["name"], sidecar["restartPolicy"]) == (AGENT_CONTAINER, "Always")
    given, options = {one["name"] for one in sidecar["env"]}, _options()
    assert given <= options.keys()
    needed = {
        option.envvar
        for name, parameter in inspect.signature(agent).parameters.items()
        if parameter.default is inspect.Parameter.empty
        for option in [get_type_hints(agent, include_extras=True)[name].__metadata__[0]]
    }
    assert needed <= given
    mounts = {one["mountPath"] for one in sidecar["volumeMounts"]}
    signature = inspect.signature(agent).parameters
    for name in ("pod_info", "git_auth"):
        assert str(signature[name].default) in mounts
    assert str(signature["api_key_file"].default.parent) in mounts
    volumes = {one["name"] for one in pod["spec"]["volumes"]}
    assert {one["name"] for one in sidecar["volumeMounts"]} == volumes
