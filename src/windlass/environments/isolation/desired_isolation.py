"""Computes the desired isolation of an Environment, from it and its Project.

The same Project, quota and trust give the same isolation, so it is computed once and the same
instance is returned from then on. What is refused holds nothing else back: the policies follow the
Project and the trust without the egress rules that are refused, and instead of a refused quota the
last one stays in force, with its limits. After a restart that one is not known: then quota and
limits stay as they are.

Called by `isolation_step`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from windlass.api.kinds.environment import Environment, Trust
from windlass.api.kinds.project import Project
from windlass.api.kinds.project_limits import Quota
from windlass.environments import spec
from windlass.environments.isolation import network_policies, quota, trust
from windlass.environments.isolation.isolation_writer import IsolationSpec
from windlass.environments.isolation.network_policies import (
    ClusterNetwork,
    EgressRefused,
    EgressRule,
)
from windlass.environments.isolation.quota import QuotaAboveMaximum
from windlass.environments.isolation.trust import UntrustedPolicy
from windlass.environments.preconditions import EnvironmentContext
from windlass.objects.names import Object

_UNKNOWN_QUOTA = IsolationSpec(hard={}, container_limits={}, policies={}, is_partial=True)


class IsolationRefused(ValueError):
    """The Project or the Environment requests what is not allowed; `reason` is the condition's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ComputedIsolation:
    """A computed isolation, and the inputs it was computed from.

    is_refused: some of the inputs are not allowed; `spec` is what is maintained without them
    """

    project: Project
    quota: Quota | None
    trust: Trust
    spec: IsolationSpec
    is_refused: bool = False

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

    def compute(
        self, context: EnvironmentContext, previous: ComputedIsolation | None
    ) -> ComputedIsolation:
        """The isolation of one Environment, `previous` if it still is; raises IsolationRefused."""
        if previous is not None and previous.is_for(context) and not previous.is_refused:
            return previous
        return _computed(context, self._check(context))

    def fall_back(
        self, context: EnvironmentContext, previous: ComputedIsolation | None
    ) -> ComputedIsolation:
        """What is maintained while the isolation is refused: all of it that is allowed."""
        if previous is not None and previous.is_for(context):
            return previous
        last = previous.spec if previous is not None else _UNKNOWN_QUOTA
        return replace(_computed(context, self._build_allowed(context, last)), is_refused=True)

    def without_project(self, environment: Environment) -> IsolationSpec:
        """What of the isolation follows from the settings of the operator and the trust alone."""
        policies = network_policies.desired_policies((), self._network, web_egress=False)
        is_trusted = trust.is_trusted(environment)
        return replace(_UNKNOWN_QUOTA, policies=policies, is_trusted=is_trusted, keeps_egress=True)

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
            return self._build(context, _egress_rules(context))
        except QuotaAboveMaximum as error:
            raise IsolationRefused("QuotaAboveMaximum", str(error)) from error
        except EgressRefused as error:
            raise IsolationRefused("EgressNotAllowed", str(error)) from error

    def _build(self, context: EnvironmentContext, egress: Iterable[EgressRule]) -> IsolationSpec:
        project, environment = context.project, context.environment
        hard = quota.hard_limits(trust.quota_amounts(project, environment, self._untrusted))
        return IsolationSpec(
            hard,
            quota.container_limit_range(spec.container_bounds(project), hard),
            self._policies(context, egress),
            is_trusted=trust.is_trusted(environment),
        )

    def _build_allowed(self, context: EnvironmentContext, last: IsolationSpec) -> IsolationSpec:
        """The isolation without what is refused; the quota is then that of `last`."""
        allowed = network_policies.allowed_rules(_egress_rules(context), self._network)
        try:
            return self._build(context, allowed)
        except QuotaAboveMaximum:
            # Nothing but the quota waits: a lowered trust or a removed rule holds at once.
            policies = self._policies(context, allowed)
            return replace(
                last, policies=policies, is_trusted=trust.is_trusted(context.environment)
            )

    def _policies(
        self, context: EnvironmentContext, egress: Iterable[EgressRule]
    ) -> dict[str, Object]:
        web_egress = context.project.spec.network.web_egress == "Public"
        return network_policies.desired_policies(egress, self._network, web_egress=web_egress)


def _egress_rules(context: EnvironmentContext) -> tuple[EgressRule, ...]:
    return spec.egress_rules(context.project, trusted=trust.is_trusted(context.environment))


def _computed(context: EnvironmentContext, isolation: IsolationSpec) -> ComputedIsolation:
    requested = context.environment.spec
    return ComputedIsolation(context.project, requested.quota, requested.trust, isolation)
