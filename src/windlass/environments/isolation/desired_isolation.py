"""Computes the isolation that an Environment should have, from it and its Project.

The same Project, quota and trust give the same isolation, so it is computed once and then
known by its identity. What is not allowed is refused before anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.api.kinds.environment import Trust
from windlass.api.kinds.project import Project
from windlass.api.kinds.project_limits import Quota
from windlass.environments import spec
from windlass.environments.isolation import network_policies, quota, trust
from windlass.environments.isolation.isolation_writer import IsolationSpec
from windlass.environments.isolation.network_policies import ClusterNetwork, EgressRefused
from windlass.environments.isolation.quota import QuotaAboveMaximum
from windlass.environments.isolation.trust import UntrustedPolicy
from windlass.environments.preconditions import EnvironmentContext
from windlass.objects.names import Key


class IsolationRefused(ValueError):
    """No such fence is put up; `reason` says why in one word."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _KnownIsolation:
    """A fence, and what it was worked out from."""

    project: Project
    quota: Quota | None
    trust: Trust
    spec: IsolationSpec

    def is_for(self, subject: EnvironmentContext) -> bool:
        spec = subject.environment.spec
        same = (self.quota, self.trust) == (spec.quota, spec.trust)
        return same and self.project is subject.project


class DesiredIsolation:
    """The wished fences of all Environments."""

    def __init__(self, surroundings: ClusterNetwork, untrusted: UntrustedPolicy) -> None:
        self._network = surroundings
        self._untrusted = untrusted
        self._known: dict[Key, _KnownIsolation] = {}

    def compute(self, subject: EnvironmentContext) -> IsolationSpec:
        """The fence of one Environment; FenceRefused says why there is none."""
        known = self._known.get(subject.key)
        if known is None or not known.is_for(subject):
            spec = subject.environment.spec
            fence = self._check(subject)
            known = _KnownIsolation(subject.project, spec.quota, spec.trust, fence)
            self._known[subject.key] = known
        return known.spec

    def forget(self, key: Key) -> None:
        """The Environment is gone."""
        self._known.pop(key, None)

    def _check(self, subject: EnvironmentContext) -> IsolationSpec:
        if not self._network.is_enforced and not trust.is_trusted(subject.environment):
            raise IsolationRefused(
                "EnforcementAbsent",
                "nothing here enforces network policies (setting environments-network-enforcement "
                "is absent), so what is untrusted cannot be fenced in; run it in a cluster whose "
                "network enforces them",
            )
        try:
            return self._build(subject)
        except QuotaAboveMaximum as error:
            raise IsolationRefused("QuotaAboveMaximum", str(error)) from error
        except EgressRefused as error:
            raise IsolationRefused("EgressNotAllowed", str(error)) from error

    def _build(self, subject: EnvironmentContext) -> IsolationSpec:
        project, environment = subject.project, subject.environment
        hard = quota.hard_limits(trust.quota_amounts(project, environment, self._untrusted))
        policies = network_policies.desired_policies(
            spec.egress_rules(project, trusted=trust.is_trusted(environment)),
            self._network,
            web_egress=project.spec.network.web_egress == "Public",
        )
        return IsolationSpec(
            hard,
            quota.container_limit_range(spec.container_bounds(project), hard),
            policies,
            is_trusted=trust.is_trusted(environment),
        )
