"""The desired state of an Environment and its Project together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project
from windlass.environments import spec
from windlass.environments.isolation import quota
from windlass.environments.isolation.network_policies import EgressRule
from windlass.environments.spec import DesiredSource, SpecRefused

URL = "https://git.example.org/shop.git"


def _project(namespace: str = "team-a", **spec: Any) -> Project:
    whole = {"sources": [{"name": "app", "repositoryUrl": URL, "branch": "main"}], **spec}
    if "source" in spec:
        del whole["sources"]
    metadata = {"name": "shop", "namespace": namespace}
    return Project.decode(json.dumps({"metadata": metadata, "spec": whole}).encode())


def _environment(namespace: str = "team-a", **spec: Any) -> Environment:
    whole = {"projectRef": {"name": "shop"}, "type": "staging", "sources": [], **spec}
    if "source" in spec:
        del whole["sources"]
    metadata = {"name": "pr-1", "namespace": namespace}
    return Environment.decode(json.dumps({"metadata": metadata, "spec": whole}).encode())


@pytest.mark.scenario("E4")
def test_the_older_spec_form_means_the_same() -> None:
    """A pair in the older form has the same template and the same commit."""
    old = (
        _project(
            source={"repositoryUrl": URL, "branch": "main"},
            deployment={"type": "manifest", "path": "k8s"},
        ),
        _environment(source={"commitSha": "a" * 40}),
    )
    new = (
        _project(
            sources=[{"name": "primary", "repositoryUrl": URL, "branch": "main"}],
            templates={"default": {"type": "manifest", "path": "k8s"}},
        ),
        _environment(sources=[{"name": "primary", "commitSha": "a" * 40}]),
    )
    assert spec.desired_sources(*old) == spec.desired_sources(*new)
    assert spec.select_template(*old) == spec.select_template(*new)
    assert spec.template_source_name(old[0], spec.select_template(*old)) == "primary"


@pytest.mark.parametrize(
    ("requested", "branch", "commit", "follows"),
    [
        ([], "main", "", True),
        ([{"name": "app"}], "main", "", True),
        ([{"name": "whatever", "branch": "feature/x"}], "feature/x", "", True),
        ([{"name": "app", "commitSha": "HEAD"}], "main", "", True),
        ([{"name": "app", "commitSha": "abcdef1"}], "main", "abcdef1", False),
    ],
)
def test_one_source_means_the_other(
    requested: list[Any], branch: str, commit: str, follows: bool
) -> None:
    """Where there is only one of each they belong together, whatever their names."""
    [source] = spec.desired_sources(_project(), _environment(sources=requested))
    assert source == DesiredSource("app", URL, "", branch, commit)
    assert source.follows_branch is follows


def test_several_sources_are_matched_by_name() -> None:
    """One that is not mentioned follows the Project's branch; a stranger is refused."""
    project = _project(
        sources=[
            {"name": "app", "repositoryUrl": URL, "branch": "main"},
            {"name": "charts", "repositoryUrl": URL, "secretRef": {"name": "key"}},
        ]
    )
    app, charts = spec.desired_sources(
        project, _environment(sources=[{"name": "app", "branch": "dev"}])
    )
    assert (app.branch, charts.branch, charts.secret_name) == ("dev", "", "key")
    with pytest.raises(
        SpecRefused, match="zoo not found in the Project; available: app, charts"
    ) as caught:
        spec.desired_sources(project, _environment(sources=[{"name": "zoo"}]))
    assert (caught.value.kind, caught.value.reason) == ("BuildReady", "SourceUnknown")


def test_the_template_of_the_type_wins_over_the_default() -> None:
    """Without either the Project is named, with its templates."""
    templates = {"staging": {"type": "manifest", "path": "a"}, "default": {"type": "manifest"}}
    assert spec.select_template(_project(templates=templates), _environment()).path == "a"
    assert spec.select_template(_project(templates=templates), _environment(type="dev")).path == ""
    with pytest.raises(SpecRefused, match=r"no template staging .*available: other") as caught:
        spec.select_template(_project(templates={"other": {"type": "manifest"}}), _environment())
    assert (caught.value.kind, caught.value.reason) == ("DeploymentReady", "TemplateMissing")
    with pytest.raises(SpecRefused, match="available: none"):
        spec.select_template(_project(), _environment())


def test_a_project_is_shared_by_its_spec() -> None:
    """The own namespace always, others only where the Project lists them."""
    granted = _project(environmentNamespaces=["team-b"])
    assert spec.may_use_project(granted, _environment("team-a"))
    assert spec.may_use_project(granted, _environment("team-b"))
    assert not spec.may_use_project(granted, _environment("team-c"))
    assert not spec.may_use_project(_project(), _environment("team-b"))


@pytest.mark.scenario("E33")
def test_amounts_are_those_that_are_set() -> None:
    """Numbers become texts; what is not set is absent."""
    project = _project(resources={"defaultQuota": {"cpu": 3, "pods": 7}, "maxQuota": {"cpu": "9"}})
    resources = project.spec.resources
    amounts = quota.trusted_amounts(
        spec.named_amounts(resources.default_quota),
        spec.named_amounts(_environment(quota={"cpu": "5"}).spec.quota),
        spec.named_amounts(resources.max_quota),
    )
    assert (amounts["cpu"], amounts["pods"], amounts["memory"]) == ("5", "7", "4Gi")
    assert spec.named_amounts(None) == {}


def test_limits_use_the_resource_names_of_pods() -> None:
    """Ephemeral storage is spelled otherwise there."""
    bounds = {"default": {"ephemeralStorage": "1Gi"}, "max": {"cpu": 2, "memory": "1Gi"}}
    limits = spec.container_bounds(_project(resources={"limitRange": bounds}))
    assert limits.default == {"ephemeral-storage": "1Gi"}
    assert limits.max == {"cpu": "2", "memory": "1Gi"}
    assert limits.default_request == {}
    assert spec.container_bounds(_project()) == quota.ContainerBounds()


def test_egress_rules_are_those_of_the_project() -> None:
    """TCP is the default protocol."""
    egress = [
        {"name": "db", "cidrs": ["10.1.0.0/16"], "ports": [{"port": 5432}]},
        {"name": "mail", "cidrs": ["192.0.2.0/24"], "untrusted": True},
    ]
    project = _project(network={"egress": egress})
    mail = EgressRule("mail", ("192.0.2.0/24",), ())
    assert spec.egress_rules(project, trusted=True) == (
        EgressRule("db", ("10.1.0.0/16",), ((5432, "TCP"),)),
        mail,
    )
    assert spec.egress_rules(project, trusted=False) == (mail,)
    assert spec.egress_rules(_project(), trusted=True) == ()
