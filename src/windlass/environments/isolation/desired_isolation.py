"""Computes the desired isolation of an Environment, from it and its Project.

The same Project, quota and trust give the same isolation, so it is computed once and the same
instance is returned from then on. What is not allowed is refused, and what was computed before
stays in force.

Called by `environment_reconciler` for step policies.
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


class IsolationRefused(ValueError):
    """The Project or the Environment requests what is not allowed; `reason` is the condition's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ComputedIsolation:
    """A computed isolation, and the inputs it was computed from."""

    project: Project
    quota: Quota | None
    trust: Trust
    spec: IsolationSpec

    def is_for(self, context: EnvironmentContext) -> bool:
        """Whether the inputs are still the same; decoded Projects are cached by their bytes."""
        spec = context.environment.spec
        same = (self.quota, self.trust) == (spec.quota, spec.trust)
        return same and self.project is context.project


class DesiredIsolation:
    """Computes the desired isolation of all Environments."""

    def __init__(self, network: ClusterNetwork, untrusted: UntrustedPolicy) -> None:
        self._network = network
        self._untrusted = untrusted
        # What depends on no Project: it is in force also where nothing else is known.
        self.base = IsolationSpec(
            hard={},
            container_limits={},
            policies=network_policies.desired_policies((), network, web_egress=False),
            is_partial=True,
        )

    def compute(
        self, context: EnvironmentContext, previous: ComputedIsolation | None
    ) -> ComputedIsolation:
        """The isolation of one Environment, `previous` if it still is; raises IsolationRefused."""
        if previous is not None and previous.is_for(context):
            return previous
        spec = context.environment.spec
        return ComputedIsolation(context.project, spec.quota, spec.trust, self._check(context))

    def _check(self, context: EnvironmentContext) -> IsolationSpec:
        """The isolation of the Environment, unless something in it is not allowed."""
        if not self._network.is_enforced and not trust.is_trusted(context.environment):
            raise IsolationRefused(
                "EnforcementAbsent",
                "untrusted Environments need enforced network policies, which this cluster does "
                "not have (--environments-network-enforcement=absent); use a cluster that "
                "enforces them",
            )
        try:
            return self._build(context)
        except QuotaAboveMaximum as error:
            raise IsolationRefused("QuotaAboveMaximum", str(error)) from error
        except EgressRefused as error:
            raise IsolationRefused("EgressNotAllowed", str(error)) from error

    def _build(self, context: EnvironmentContext) -> IsolationSpec:
        project, environment = context.project, context.environment
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
