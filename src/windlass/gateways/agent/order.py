"""What an engine is asked to bring about: one commit, for one gateway, under one routing.

An order holds everything that a plan depends on apart from the disk, so equal orders over
equal disks give equal plans, whoever gave them: an agent, or a person at a desk.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.gateways.decide import routing as routings
from windlass.gateways.decide.deletes import Allowance, Safety
from windlass.gateways.decide.gateway import Pod
from windlass.gateways.decide.metadata import Metadata, Policy
from windlass.gateways.decide.plan import Target
from windlass.gateways.decide.policing import Caps
from windlass.gateways.decide.routing import Routing
from windlass.git.commit_store import RemoteSource


@dataclass(frozen=True, slots=True)
class Order:
    """One commit for one gateway; `ref` is the name that led to the commit."""

    source: RemoteSource
    commit: str
    ref: str
    routing: Routing
    routing_hash: str
    pod: Pod
    cr_name: str
    safety: Safety = field(default_factory=Safety)
    caps: Caps = field(default_factory=Caps)

    @property
    def profile_hash(self) -> str:
        return profile_hash(self.routing_hash, self.pod)

    def target(self, gateway: str) -> Target:
        """What a plan for this order says it is for."""
        return Target(gateway, self.commit, self.profile_hash, self.routing_hash)


def profile_hash(routing_hash: str, pod: Pod) -> str:
    """The name of a pod's routing (2.8)."""
    return routings.profile_hash(routing_hash, pod.annotations, pod.labels)


def caps_of(policy: Policy) -> Caps:
    """How much one gateway's plan may hold."""
    return Caps(policy.max_files, policy.max_file_bytes, policy.max_total_bytes)


def safety_of(metadata: Metadata, pod: Pod, api_token: str) -> Safety:
    """What may be deleted; a word on the pod counts for its gateway like one on the CR."""
    commit = metadata.source.commit if metadata.source is not None else ""
    said = (metadata.overrides.mass_delete, pod.said("allow-mass-delete") or "")
    allowed = bool(commit) and commit in said
    return Safety(
        delete_policy=metadata.policy.delete_policy,
        max_deletes=metadata.policy.max_deletes,
        max_delete_percent=metadata.policy.max_delete_percent,
        api_token=api_token,
        allowed=Allowance(commit, metadata.routing_hash) if allowed else None,
    )
