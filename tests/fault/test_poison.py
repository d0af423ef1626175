"""An object that cannot be mirrored stands beside a hundred that can."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.mirrored import Mirrored
from tests.support.operator import Operator, eventually
from tests.support.people import admin_of
from windlass.dev.desk import Desk

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


def _deep() -> object:
    value: object = 1
    for _ in range(400):
        value = {"d": value}
    return value


@pytest.mark.scenario("A104")
@pytest.mark.parametrize("poison", [HUGE, _deep()], ids=["huge integer", "deep nesting"])
def test_poison_harms_nobody_but_itself(
    poison: object, mirrored: Mirrored, operator: Operator, desk: Desk
) -> None:
    """A hundred files, one Undecodable; a file that was there before is kept as it is."""
    alice, pid = mirrored.person("alice"), operator.pid
    alice.apply(_definition())
    place = f"/apis/{GROUP}/v1/namespaces/{mirrored.namespace}/widgets"
    eventually(lambda: desk.api.ask(place, method="POST", body=_widget("turns", 1)).ok, "the type")
    good = [_widget(f"good-{number}", number) for number in range(GOOD)]
    listed = {"kind": "List", "apiVersion": "v1", "items": good}
    alice.kubectl("create", "-f", "-", stdin=json.dumps(listed))
    made = desk.api.ask(place, method="POST", body=_widget("born-bad", poison))
    assert made.ok, made
    skipped = 'windlass_mirror_skips_total{reason="Undecodable"}'
    before = operator.metric(skipped)
    mirrored.configured({"resources": ["widgets"]})
    eventually(lambda: len(mirrored.files()) == GOOD + 1, "the good ones", seconds=40.0)
    eventually(lambda: operator.metric(skipped) > before, "a count", seconds=20.0)
    eventually(lambda: _undecodable(mirrored) == {"born-bad"}, "an event that names it")
    turned = _path(mirrored, "turns")
    kept = mirrored.files()[turned]
    _replace(desk, place, poison)
    assert desk.api.ask(f"{place}/good-0", method="DELETE").ok
    eventually(lambda: _path(mirrored, "good-0") not in mirrored.files(), "others go on")
    assert mirrored.files()[turned] == kept
    _replace(desk, place, 2)
    eventually(lambda: "value: 2" in mirrored.files()[turned], "the cured object")
    assert _path(mirrored, "born-bad") not in mirrored.files()
    eventually(lambda: _undecodable(mirrored) == {"born-bad", "turns"}, "an event for each")
    assert operator.pid == pid


def _undecodable(mirrored: Mirrored) -> set[str]:
    """The objects that events on the destination say cannot be read."""
    rows = [row for row in admin_of(mirrored).list("events") if row["reason"] == UNDECODABLE]
    assert {row["involvedObject"]["name"] for row in rows} <= {"destination"}
    return {row["message"].split()[0].rpartition("/")[2] for row in rows}


def _path(mirrored: Mirrored, name: str) -> str:
    return f"{GROUP}/v1/widgets/{mirrored.namespace}/{name}.yaml"


def _replace(desk: Desk, place: str, value: object) -> None:
    found = json.loads(desk.api.ask(f"{place}/turns").text)
    found["spec"]["value"] = value
    done = desk.api.ask(f"{place}/turns", method="PUT", body=found)
    assert done.ok, done
