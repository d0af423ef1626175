"""Effects of the trust in an Environment."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.environments import manifests as written
from tests.support.environments.manifests import TARGET, pod_spec
from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project
from windlass.environments.bundle import field_rules
from windlass.environments.bundle.bundle import BundleRefused
from windlass.environments.isolation import quota, trust
from windlass.environments.isolation.quota import QuotaAboveMaximum
from windlass.environments.isolation.trust import UntrustedPolicy
from windlass.objects.names import Object

_SANDBOX = UntrustedPolicy(
    pod_security="baseline", runtime_class_name="sandbox", node_selector={"pool": "forks"}
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_AFFINITY = {"nodeAffinity": {_REQUIRED: {}}}
_OWN_PODS = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
_NAMED: Object = {"podAffinity": {_REQUIRED: [{**_OWN_PODS, "namespaces": ["shop"]}]}}
_SELECTED: Object = {
    "podAntiAffinity": {
        _PREFERRED: [{"weight": 1, "podAffinityTerm": {**_OWN_PODS, "namespaceSelector": {}}}]
    }
}
_OWN_NAMESPACE: Object = {
    "podAffinity": {_REQUIRED: [{**_OWN_PODS, "namespaces": [], "namespaceSelector": None}]},
    "podAntiAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": _OWN_PODS}]},
}


def _project(**spec: Any) -> Project:
    spec = {"sources": [{"name": "app", "repositoryUrl": "https://h/x.git"}], **spec}
    metadata = {"name": "shop", "namespace": "team-a"}
    return Project.decode(json.dumps({"metadata": metadata, "spec": spec}).encode())


def _environment(**spec: Any) -> Environment:
    spec = {"projectRef": {"name": "shop"}, "type": "staging", "sources": [], **spec}
    metadata = {"name": "pr-1", "namespace": "team-a"}
    return Environment.decode(json.dumps({"metadata": metadata, "spec": spec}).encode())


_TRUSTED, _UNTRUSTED = _environment(), _environment(trust="untrusted")


def test_the_project_speaks_for_those_it_trusts_only() -> None:
    """The level, the nodes and the runtime class of others are the administrator's."""
    project = _project(security={"podSecurity": "baseline"})
    assert trust.pod_security(project, _TRUSTED, UntrustedPolicy()) == "baseline"
    assert trust.pod_security(project, _UNTRUSTED, UntrustedPolicy()) == "restricted"
    assert trust.pod_security(_project(), _UNTRUSTED, _SANDBOX) == "baseline"
    assert trust.pod_placement(_TRUSTED, _SANDBOX) == {}
    assert trust.pod_placement(_UNTRUSTED, UntrustedPolicy()) == {}
    assert trust.pod_placement(_UNTRUSTED, _SANDBOX) == {
        "runtimeClassName": "sandbox",
        "nodeSelector": {"pool": "forks"},
    }


@pytest.mark.parametrize(
    ("given", "granted", "wanted"),
    [
        ({}, {}, {"cpu": "1", "memory": "2Gi", "limitsMemory": "4Gi", "pods": "10"}),
        ({"cpu": 3, "memory": "5Gi"}, {}, {"cpu": "1500m", "memory": str(5 << 29)}),
        ({"pods": 1, "cpu": "1m", "jobs": 7}, {}, {"pods": "1", "cpu": "1m", "jobs": "4"}),
        ({"limitsCpu": "1", "limitsMemory": "6Gi"}, {}, {"limitsCpu": "500m"}),
        ({}, {"cpu": "1500m", "memory": "1Gi"}, {"cpu": "1500m", "limitsMemory": "2Gi"}),
        ({"cpu": "2"}, {"cpu": "64", "limitsMemory": "99Gi"}, {"cpu": "2", "limitsMemory": "8Gi"}),
    ],
)
def test_an_untrusted_quota_is_half_or_as_configured(
    given: dict[str, Any], granted: dict[str, str], wanted: dict[str, str]
) -> None:
    """Rounded up where it must be whole, and never more than a trusted one has."""
    project = _project(resources={"defaultQuota": given})
    amounts = trust.quota_amounts(project, _UNTRUSTED, UntrustedPolicy(quota=granted))
    assert wanted.items() <= amounts.items()
    most = quota.hard_limits(trust.quota_amounts(project, _TRUSTED, UntrustedPolicy()))
    assert quota.hard_limits(amounts).keys() == most.keys()


def test_an_untrusted_environment_may_only_lower_its_quota() -> None:
    """Whatever maximum the Project has."""
    project = _project(resources={"maxQuota": {"cpu": "9"}})
    less = _environment(trust="untrusted", quota={"memory": "1Gi"})
    assert trust.quota_amounts(project, less, UntrustedPolicy())["limitsMemory"] == "2Gi"
    more = _environment(trust="untrusted", quota={"cpu": "2"})
    with pytest.raises(
        QuotaAboveMaximum, match=r"spec\.quota\.cpu is 2, .* Project is 1; lower it"
    ):
        trust.quota_amounts(project, more, UntrustedPolicy())


@pytest.mark.parametrize(
    ("path", "pod"),
    [
        ("tolerations", pod_spec(tolerations=[{"operator": "Exists"}])),
        ("nodeSelector", pod_spec(nodeSelector={"pool": "gpu"})),
        ("affinity.nodeAffinity", pod_spec(affinity=_AFFINITY)),
        (f"affinity.podAffinity.{_REQUIRED}[0].namespaces", pod_spec(affinity=_NAMED)),
        (
            f"affinity.podAntiAffinity.{_PREFERRED}[0].podAffinityTerm.namespaceSelector",
            pod_spec(affinity=_SELECTED),
        ),
    ],
)
def test_an_untrusted_bundle_chooses_no_nodes(path: str, pod: Object) -> None:
    """Neither by tolerations, nor by labels, nor by affinity to nodes or foreign pods."""
    obj = written.deployment("x", pod)
    assert list(field_rules.field_violations(obj, frozenset(), written.CLUSTER_ACCESS)) == []
    [violation] = field_rules.field_violations(
        obj, frozenset(), written.CLUSTER_ACCESS, trusted=False
    )
    assert violation.where == f"Deployment/x spec.template.spec.{path}"
    harmless = pod_spec(tolerations=[], nodeSelector=None, affinity=_OWN_NAMESPACE)
    assert not [
        *field_rules.field_violations(
            written.job("x", harmless), frozenset(), written.CLUSTER_ACCESS, trusted=False
        )
    ]


def test_an_untrusted_bundle_runs_where_it_is_put() -> None:
    """Not on every node, but on the administrator's, in the runtime class it names."""
    target = replace(TARGET, trusted=False, placement=trust.pod_placement(_UNTRUSTED, _SANDBOX))
    everywhere: Object = {**written.deployment("x"), "kind": "DaemonSet"}
    assert written.build_bundle([everywhere]).members
    with pytest.raises(BundleRefused, match="not allowed in an untrusted Environment") as caught:
        written.build_bundle([everywhere], target)
    assert caught.value.reason == "KindNotAllowed"
    [member] = written.build_bundle([written.cron_job()], target).members
    spec = member.object["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert (spec["runtimeClassName"], spec["nodeSelector"]) == ("sandbox", {"pool": "forks"})
