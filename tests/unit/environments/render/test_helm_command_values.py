"""Values and release names that a chart is rendered with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project_sources import Template
from windlass.environments.namespace.naming import EnvironmentIdentity
from windlass.environments.render import helm_command
from windlass.environments.spec import SpecRefused

CHART = Template(type="helm", values={"b": {"z": None, "a": [1, 1.5, True]}, "a": "x"})


def _environment(**spec: Any) -> Environment:
    whole = {"projectRef": {"name": "shop"}, "type": "staging", "sources": [], **spec}
    metadata = {"name": "pr-1", "namespace": "team-a"}
    return Environment.decode(json.dumps({"metadata": metadata, "spec": whole}).encode())


def test_values_of_the_environment_win() -> None:
    """Values are unchanged, whatever they contain, and equal ones are equal bytes."""
    given = helm_command.encode_values(CHART, _environment(values={"a": None}))
    assert [json.loads(text) for text in given] == [CHART.values, {"a": None}]
    turned = Template(type="helm", values=dict(reversed((CHART.values or {}).items())))
    assert helm_command.encode_values(turned, _environment())[0] == given[0]
    assert helm_command.encode_values(Template(type="manifest"), _environment()) == ()


def test_too_many_values_are_refused_by_their_field() -> None:
    """So are values for a template that has no use for them."""
    large = {"a": "x" * helm_command.MOST_ENVIRONMENT_BYTES}
    cases: list[tuple[Template, dict[str, Any], str]] = [
        (CHART, large, "spec.values: "),
        (Template(type="helm", values={"a": "x" * (256 << 10)}), {}, "values of the template: "),
        (
            Template(type="manifest"),
            {"a": 1},
            "spec.values is only allowed with a template of type helm",
        ),
    ]
    for template, values, message in cases:
        with pytest.raises(SpecRefused, match=message) as caught:
            helm_command.encode_values(template, _environment(values=values))
        assert caught.value.reason == "ConfigInvalid"
    assert len(helm_command.encode_values(CHART, _environment(values={"a": "x" * 60_000}))) == 2


@pytest.mark.parametrize(
    ("project", "name", "release"),
    [
        ("shop", "shop-pr-1", "pr-1"),
        ("shop", "staging", "staging"),
        ("shop", "x" * 53, "x" * 53),
        ("shop", "a.b", "a-b-"),
        ("shop", "x" * 54, "x" * 40 + "-"),
        ("shop", "x" * 39 + "-" + "y" * 30, "x" * 39 + "-"),
    ],
)
def test_a_release_is_named_after_its_environment(project: str, name: str, release: str) -> None:
    """A name that helm would refuse is cut, with a hash behind it."""
    identity = EnvironmentIdentity("team-a", project, name)
    release_name = helm_command.release_name(identity)
    assert release_name == (release + identity.hash if release.endswith("-") else release)
    assert len(release_name) <= 53


def test_inputs_change_with_anything_that_goes_in() -> None:
    """And with nothing else: neither the commit nor the cluster is among them."""
    inputs = ("tree", "chart", ("a.yaml",), (b"{}",), ("pr-1", "env-shop-pr-1"))
    others = [
        ("tree2", *inputs[1:]),
        (inputs[0], "other", *inputs[2:]),
        (*inputs[:2], ("b.yaml",), *inputs[3:]),
        (*inputs[:3], (b"{}", b"{}"), inputs[4]),
        (*inputs[:4], ("pr-2", "env-shop-pr-1")),
        (*inputs[:4], ("pr-1", "env-shop-pr-2")),
    ]
    hashes = {helm_command.inputs_digest(*row) for row in (inputs, inputs, *others)}
    assert len(hashes) == len(others) + 1
