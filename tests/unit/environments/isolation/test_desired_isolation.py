"""The desired isolation of an Environment, and what is maintained while it is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project
from windlass.environments.isolation.desired_isolation import DesiredIsolation, IsolationRefused
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.environments.isolation.trust import UntrustedPolicy
from windlass.environments.ownership import Ownership
from windlass.environments.preconditions import EnvironmentContext

_OWNER = Ownership("u1", "team-a", "pr-1", "shop")
_EGRESS = [{"name": "db", "cidrs": ["10.1.0.0/16"]}, {"name": "mail", "cidrs": ["203.0.113.0/24"]}]
_BASE = {"default-policy", "allow-same-namespace", "allow-dns"}


def _context(*, egress: tuple[dict[str, Any], ...] = (), **environment: Any) -> EnvironmentContext:
    sources = [{"name": "app", "repositoryUrl": "https://h/x.git"}]
    project = {
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {"sources": sources, "network": {"egress": egress}},
    }
    obj = {
        "metadata": {"name": "pr-1", "namespace": "team-a", "uid": "u1"},
        "spec": {
            "projectRef": {"name": "shop"},
            "type": "staging",
            "sources": [],
            **environment,
        },
    }
    return EnvironmentContext(
        Environment.decode(json.dumps(obj).encode()),
        obj,
        Project.decode(json.dumps(project).encode()),
        _OWNER,
    )


def _desired() -> DesiredIsolation:
    return DesiredIsolation(ClusterNetwork(), UntrustedPolicy())


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
def test_a_refused_quota_leaves_the_policies_and_the_trust(trust: str) -> None:
    """Both are known; quota and limits are not."""
    context, desired = _context(quota={"pods": 9999}, trust=trust), _desired()
    with pytest.raises(IsolationRefused, match=r"spec\.quota\.pods is 9999"):
        desired.compute(context, None)
    kept = desired.fall_back(context, None).spec
    assert kept.policies.keys() == _BASE | {"allow-web-egress"}
    assert (kept.is_trusted, kept.is_partial) == (trust == "trusted", True)


def test_a_refused_egress_rule_leaves_the_other_rules() -> None:
    """What is refused is not opened, and closes nothing else."""
    context, desired = _context(egress=tuple(_EGRESS)), _desired()
    with pytest.raises(IsolationRefused, match="db"):
        desired.compute(context, None)
    kept = desired.fall_back(context, None).spec
    assert kept.policies.keys() == _BASE | {"allow-web-egress", "allow-egress-mail"}


def test_a_refused_quota_keeps_the_last_quota_and_nothing_else() -> None:
    """A lowered trust and a removed egress rule hold at once."""
    desired = _desired()
    accepted = desired.compute(_context(egress=(_EGRESS[1],)), None)
    kept = desired.fall_back(_context(quota={"pods": 9999}, trust="untrusted"), accepted).spec
    assert (kept.hard, kept.container_limits) == (
        accepted.spec.hard,
        accepted.spec.container_limits,
    )
    assert kept.policies.keys() == _BASE | {"allow-web-egress"}
    assert (kept.is_trusted, kept.is_partial) == (False, False)


def test_a_refused_egress_rule_does_not_hold_back_the_quota() -> None:
    """It is known also after a restart, and a new one takes effect."""
    kept = _desired().fall_back(_context(egress=(_EGRESS[0],), quota={"pods": 7}), None).spec
    assert (kept.hard["pods"], kept.is_partial) == ("7", False)


def test_what_is_maintained_during_a_refusal_is_computed_once() -> None:
    """The same instance is returned until an input changes, and it never counts as accepted."""
    context, desired = _context(quota={"pods": 9999}), _desired()
    kept = desired.fall_back(context, None)
    assert desired.fall_back(context, kept) is kept
    with pytest.raises(IsolationRefused):
        desired.compute(context, kept)
    accepted = desired.compute(_context(), None)
    beside = desired.fall_back(context, accepted)
    assert desired.fall_back(context, beside) is beside
    with pytest.raises(IsolationRefused):
        desired.compute(context, beside)
    changed = replace(context, project=_context(egress=(_EGRESS[1],)).project)
    assert "allow-egress-mail" in desired.fall_back(changed, kept).spec.policies
