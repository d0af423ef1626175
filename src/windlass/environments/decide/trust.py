"""What the trust in an Environment decides.

| | trusted | untrusted |
|---|---|---|
| Pod Security level | the Project's | the administrator's |
| quota | the Project's, or up to its maximum | half of it, or the administrator's; never more |
| ways out | all that the Project names | those it marks as untrusted |
| manifests | what the rules allow | neither DaemonSets nor a choice of nodes |
| pods | as they are written | on the administrator's nodes, in its runtime class |
| policies that nobody enforces | said | refused |

Trust only falls, and the fence is changed before anything new is applied inside it: what
still runs then was trusted when it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project
from windlass.api.kinds.project_limits import PodSecurity
from windlass.environments.decide import quota, wish
from windlass.objects.names import Object


@dataclass(frozen=True, slots=True)
class Untrusted:
    """What the administrator says about Environments that nobody vouches for."""

    pod_security: PodSecurity = "restricted"
    runtime_class_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    quota: Mapping[str, str] = field(default_factory=dict)


def is_given(environment: Environment) -> bool:
    """Whether somebody vouches for what runs in it."""
    return environment.spec.trust == "trusted"


def pod_security(project: Project, environment: Environment, untrusted: Untrusted) -> PodSecurity:
    """The Pod Security level of its namespace."""
    if is_given(environment):
        return project.spec.security.pod_security
    return untrusted.pod_security


def amounts(project: Project, environment: Environment, untrusted: Untrusted) -> dict[str, str]:
    """How much it may use; AboveMaximum if it asks for more."""
    resources = project.spec.resources
    given, asked = wish.amounts(resources.default_quota), wish.amounts(environment.spec.quota)
    if is_given(environment):
        return quota.amounts(given, asked, wish.amounts(resources.max_quota))
    return quota.untrusted(given, asked, untrusted.quota)


def placement(environment: Environment, untrusted: Untrusted) -> Object:
    """What each of its pods must say, whatever its manifest does."""
    if is_given(environment):
        return {}
    found: Object = {}
    if untrusted.runtime_class_name:
        found["runtimeClassName"] = untrusted.runtime_class_name
    if untrusted.node_selector:
        found["nodeSelector"] = dict(untrusted.node_selector)
    return found
