"""What docs/gateways.md documents about pods is what the code reads."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, get_type_hints

import typer
import yaml

from windlass.cli.agent import agent
from windlass.gateways.agent import inputs
from windlass.gateways.agent.inputs import AgentPaths
from windlass.gateways.status.pod_discovery import AGENT_CONTAINER
from windlass.gateways.tree import gateway_pod
from windlass.gateways.wire.metadata import CommitSource
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


def _mount_volume(root: Path, volume: dict[str, Any]) -> None:
    """Write the files of a volume of Secrets as the kubelet does; values name Secret and key."""
    sources = [source["secret"] for source in volume.get("projected", {}).get("sources", ())]
    sources += [volume["secret"]] if "secret" in volume else []
    for source in sources:
        for item in source["items"]:
            path = root / volume["name"] / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{source.get('name') or source['secretName']}:{item['key']}")


def test_secrets_with_other_keys_are_read_through_the_volumes_shown(tmp_path: Path) -> None:
    """The paths of the example are those at which the agent looks."""
    blocks = re.findall(r"```yaml\n(.*?)```", _PAGE, re.DOTALL)
    for volume in yaml.safe_load(blocks[1])["volumes"]:
        _mount_volume(tmp_path, volume)
    defaults = {name: one.default for name, one in inspect.signature(agent).parameters.items()}
    mounts = defaults["pod_info"].parent

    def mounted(name: str) -> Path:
        return tmp_path / defaults[name].relative_to(mounts)

    paths = AgentPaths(
        data=tmp_path,
        store=tmp_path,
        pod_info=mounted("pod_info"),
        api_key=mounted("api_key_file"),
        git_auth=mounted("git_auth"),
        git_ca=mounted("git_ca"),
        gateway_ca=mounted("gateway_ca"),
    )
    source = CommitSource("1" * 40, "main", "git@host:x.git", auth_type="ssh")
    credentials = inputs.read_git_credentials(paths, source, verifies_host_keys=True)
    assert credentials.ssh_key == b"plant-git:deploy-key\n"
    assert credentials.known_hosts == b"git-hosts:hosts"
    assert inputs.read_api_token_name(paths) == "ignition-api"
    ca = inputs.gateway_ca(paths)
    assert ca is not None
    assert ca.read_text() == "plant-ca:root.pem"
