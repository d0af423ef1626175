"""Decides what an Environment gets by its trust, `spec.trust`.

| | trusted | untrusted |
|---|---|---|
| Pod Security level | the Project's | the administrator's |
| quota | the Project's, or up to its maximum | half of it, or the administrator's; never more |
| egress | all rules of the Project | those with `untrusted: true` |
| manifests | what the rules allow | neither DaemonSets nor a choice of nodes |
| pods | as they are written | on the administrator's nodes, in its runtime class |
| policies that are not enforced | reported | refused |

Trust can only be lowered, and the isolation is changed before anything new is applied inside it:
what still runs then was applied while it was trusted.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project
from windlass.api.kinds.project_limits import PodSecurity
from windlass.environments import spec
from windlass.environments.isolation import quota
from windlass.objects.names import Object


@dataclass(frozen=True, slots=True)
class UntrustedPolicy:
    """The administrator's settings for untrusted Environments; empty = not set."""

    pod_security: PodSecurity = "restricted"
    runtime_class_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    quota: Mapping[str, str] = field(default_factory=dict)


def is_trusted(environment: Environment) -> bool:
    """Whether `spec.trust` vouches for the code that runs in the Environment."""
    return environment.spec.trust == "trusted"


def pod_security(
    project: Project, environment: Environment, untrusted: UntrustedPolicy
) -> PodSecurity:
    """The Pod Security level of the Environment's namespace."""
    if is_trusted(environment):
        return project.spec.security.pod_security
    return untrusted.pod_security


def quota_amounts(
    project: Project, environment: Environment, untrusted: UntrustedPolicy
) -> dict[str, str]:
    """The quota amounts of the Environment; raises QuotaAboveMaximum."""
    resources = project.spec.resources
    default, requested = (
        spec.named_amounts(resources.default_quota),
        spec.named_amounts(environment.spec.quota),
    )
    if is_trusted(environment):
        return quota.trusted_amounts(default, requested, spec.named_amounts(resources.max_quota))
    return quota.untrusted_amounts(default, requested, untrusted.quota)


def pod_placement(environment: Environment, untrusted: UntrustedPolicy) -> Object:
    """Fields that are set in the spec of each pod, over those of its manifest."""
    if is_trusted(environment):
        return {}
    placement: Object = {}
    if untrusted.runtime_class_name:
        placement["runtimeClassName"] = untrusted.runtime_class_name
    if untrusted.node_selector:
        placement["nodeSelector"] = dict(untrusted.node_selector)
    return placement
