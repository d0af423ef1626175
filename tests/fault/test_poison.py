"""An object that cannot be decoded among a hundred that can."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.processes.operator import Operator, eventually
from tests.support.reverser.api_users import admin_user, api_user
from tests.support.reverser.mirrored_namespace import MirroredNamespace
from windlass_dev.cluster.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

GROUP = "poison.example.org"
GOOD = 100
HUGE = 10**20
UNDECODABLE = "ObjectUndecodable"


def _definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }


def _widget(name: str, value: object) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"value": value},
    }


def _deeply_nested() -> object:
    value: object = 1
    for _ in range(400):
        value = {"d": value}
    return value


POISONS = {"huge-integer": HUGE, "deep-nesting": _deeply_nested()}
BORN_BAD = {f"born-{name}": poison for name, poison in POISONS.items()}
TURNING = {f"turns-{name}": poison for name, poison in POISONS.items()}


@pytest.mark.scenario("A104")
def test_an_undecodable_object_does_not_affect_others(
    mirrored: MirroredNamespace, operator: Operator, fault_cluster: LocalCluster
) -> None:
    """The others are mirrored, each bad one is Undecodable, and files they had before are kept."""
    alice, pid = api_user(mirrored, "alice"), operator.pid
    alice.apply(_definition())
    path = f"/apis/{GROUP}/v1/namespaces/{mirrored.namespace}/widgets"
    eventually(lambda: fault_cluster.api.request(path).ok, "the type")
    good = {f"good-{number}": number for number in range(GOOD)}
    for name, value in (good | dict.fromkeys(TURNING, 1) | BORN_BAD).items():
        response = alice.request("POST", path, _widget(name, value))
        assert response.ok, response
    skipped = 'windlass_mirror_skips_total{reason="Undecodable"}'
    before = operator.metric(skipped)
    mirrored.configured({"resources": ["widgets"]})
    eventually(lambda: len(mirrored.files()) == GOOD + 2, "the good ones", seconds=40.0)
    eventually(lambda: operator.metric(skipped) >= before + 2, "a count", seconds=20.0)
    eventually(lambda: _undecodable(mirrored) == {*BORN_BAD}, "an event that names each")
    files_before = {name: mirrored.files()[_path(mirrored, name)] for name in TURNING}
    for name, poison in TURNING.items():
        _replace(fault_cluster, f"{path}/{name}", poison)
    assert fault_cluster.api.request(f"{path}/good-0", method="DELETE").ok
    eventually(lambda: _path(mirrored, "good-0") not in mirrored.files(), "others go on")
    assert {name: mirrored.files()[_path(mirrored, name)] for name in TURNING} == files_before
    for name in TURNING:
        _replace(fault_cluster, f"{path}/{name}", 2)
    eventually(lambda: _are_readable_again(mirrored), "the cured objects")
    assert not {_path(mirrored, name) for name in BORN_BAD} & mirrored.files().keys()
    every = {*BORN_BAD, *TURNING}
    eventually(lambda: _undecodable(mirrored) == every, "an event for each")
    assert operator.pid == pid


def _are_readable_again(mirrored: MirroredNamespace) -> bool:
    mirrored_files = mirrored.files()
    return all("value: 2" in mirrored_files[_path(mirrored, name)] for name in TURNING)


def _undecodable(mirrored: MirroredNamespace) -> set[str]:
    """The objects that events on the destination say cannot be read."""
    rows = [row for row in admin_user(mirrored).list("events") if row["reason"] == UNDECODABLE]
    assert {row["involvedObject"]["name"] for row in rows} <= {"destination"}
    return {row["message"].split()[0].rpartition("/")[2] for row in rows}


def _path(mirrored: MirroredNamespace, name: str) -> str:
    return f"{GROUP}/v1/widgets/{mirrored.namespace}/{name}.yaml"


def _replace(fault_cluster: LocalCluster, path: str, value: object) -> None:
    obj = json.loads(fault_cluster.api.request(path).text)
    obj["spec"]["value"] = value
    response = fault_cluster.api.request(path, method="PUT", body=obj)
    assert response.ok, response
