"""Older ways to write a spec become the later one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.api.kinds import environment, project
from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project


def _project(spec: dict[str, Any]) -> project.ProjectSpec:
    return Project.decode(json.dumps({"metadata": {"name": "x"}, "spec": spec}).encode()).spec


def _environment(spec: dict[str, Any]) -> environment.EnvironmentSpec:
    whole = {"projectRef": {"name": "p"}, "type": "staging"} | spec
    return Environment.decode(json.dumps({"metadata": {"name": "x"}, "spec": whole}).encode()).spec


@pytest.mark.scenario("E4")
def test_one_project_in_two_ways() -> None:
    """A Project in the older shape equals the same one in the later."""
    url = "https://h/x"
    old = _project(
        {
            "source": {"repositoryUrl": url, "branch": "main"},
            "deployment": {"type": "manifest", "path": "k8s"},
        }
    )
    new = _project(
        {
            "sources": [{"name": "primary", "repositoryUrl": url, "branch": "main"}],
            "templates": {"default": {"type": "manifest", "path": "k8s"}},
        }
    )
    assert old == new
    assert old.source is None
    assert old.deployment is None


@pytest.mark.scenario("E4")
def test_one_environment_in_two_ways() -> None:
    """An Environment in the older shape equals the same one in the later."""
    old = _environment({"source": {"commitSha": "a" * 40, "branch": "x"}})
    new = _environment({"sources": [{"name": "primary", "commitSha": "a" * 40, "branch": "x"}]})
    assert old == new
    assert old.source is None


def test_resolving_again_changes_nothing() -> None:
    """What was resolved stays as it is."""
    spec = _project({"source": {"repositoryUrl": "https://h/x"}})
    assert project.canonical_spec(spec) == spec
    wish = _environment({"source": {}})
    assert environment.canonical_spec(wish) == wish


def test_nothing_given_is_an_empty_collection() -> None:
    """After decoding nobody has to ask whether sources or templates are there."""
    assert _environment({"sources": []}).sources == ()
    assert _project({"source": {"repositoryUrl": "https://h/x"}}).templates == {}
