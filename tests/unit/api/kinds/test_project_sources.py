"""Older forms of a spec are converted to the current one."""

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
def test_both_forms_of_a_project_are_equal() -> None:
    """A Project in the older form equals the same one in the current form."""
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
def test_both_forms_of_an_environment_are_equal() -> None:
    """An Environment in the older form equals the same one in the current form."""
    old = _environment({"source": {"commitSha": "a" * 40, "branch": "x"}})
    new = _environment({"sources": [{"name": "primary", "commitSha": "a" * 40, "branch": "x"}]})
    assert old == new
    assert old.source is None


def test_resolving_again_changes_nothing() -> None:
    """A canonical spec stays the same."""
    spec = _project({"source": {"repositoryUrl": "https://h/x"}})
    assert project.canonical_spec(spec) == spec
    canonical = _environment({"source": {}})
    assert environment.canonical_spec(canonical) == canonical


def test_omitted_fields_are_empty_collections() -> None:
    """After decoding no caller has to check whether sources or templates are set."""
    assert _environment({"sources": []}).sources == ()
    assert _project({"source": {"repositoryUrl": "https://h/x"}}).templates == {}
