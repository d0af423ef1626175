"""What the trust in an Environment decides.

| | trusted | untrusted |
|---|---|---|
| Pod Security level | the Project's | the administrator's |
| quota | the Project's, or up to its maximum | half of it, or the administrator's; never more |
| egress | all rules of the Project | those it marks as untrusted |
| manifests | what the rules allow | neither DaemonSets nor a choice of nodes |
| pods | as they are written | on the administrator's nodes, in its runtime class |
| policies that are not enforced | reported | refused |

Trust only falls, and the isolation is changed before anything new is applied inside it: what
still runs then was trusted when it came.

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
    """What the administrator says about Environments that nobody vouches for."""

    pod_security: PodSecurity = "restricted"
    runtime_class_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    quota: Mapping[str, str] = field(default_factory=dict)


def is_trusted(environment: Environment) -> bool:
    """Whether somebody vouches for what runs in it."""
    return environment.spec.trust == "trusted"


def pod_security(
    project: Project, environment: Environment, untrusted: UntrustedPolicy
) -> PodSecurity:
    """The Pod Security level of its namespace."""
    if is_trusted(environment):
        return project.spec.security.pod_security
    return untrusted.pod_security


def quota_amounts(
    project: Project, environment: Environment, untrusted: UntrustedPolicy
) -> dict[str, str]:
    """How much it may use; AboveMaximum if it asks for more."""
    resources = project.spec.resources
    given, asked = (
        spec.named_amounts(resources.default_quota),
        spec.named_amounts(environment.spec.quota),
    )
    if is_trusted(environment):
        return quota.trusted_amounts(given, asked, spec.named_amounts(resources.max_quota))
    return quota.untrusted_amounts(given, asked, untrusted.quota)


def pod_placement(environment: Environment, untrusted: UntrustedPolicy) -> Object:
    """What each of its pods must say, whatever its manifest does."""
    if is_trusted(environment):
        return {}
    found: Object = {}
    if untrusted.runtime_class_name:
        found["runtimeClassName"] = untrusted.runtime_class_name
    if untrusted.node_selector:
        found["nodeSelector"] = dict(untrusted.node_selector)
    return found
