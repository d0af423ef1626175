"""Everything that one turn of the agent's loop looks at, taken in one moment."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from windlass.gateways.agent import order as orders
from windlass.gateways.agent import surroundings
from windlass.gateways.agent.order import Order
from windlass.gateways.agent.surroundings import Identity, Places
from windlass.gateways.decide import gateway, selection
from windlass.gateways.decide.gateway import Pod
from windlass.gateways.decide.globs import Globs
from windlass.gateways.decide.metadata import Metadata
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.selection import Revision, Selection
from windlass.git.commit_store import RemoteSource
from windlass.git.errors import GitError
from windlass.git.format.remote import Remote, RemoteRefused

_LONGEST_LOOK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class View:
    """What was told, and the pod; `selection` is None where the pod has no routing."""

    metadata: Metadata | None
    pod: Pod
    gateway: str
    selection: Selection | None = None
    profile_hash: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal as long as a failure would fail again."""
        return told_key(self.metadata), dict(self.pod.annotations), dict(self.pod.labels)

    @property
    def excludes(self) -> Globs:
        return Globs(self.selection.excludes if self.selection is not None else ())

    @property
    def period_seconds(self) -> float:
        """How often everything is looked at again, without any event."""
        if self.selection is None:
            return _LONGEST_LOOK_SECONDS
        return float(self.selection.sync_period_seconds)

    @property
    def system_name(self) -> str:
        return (self.selection.system_name or "") if self.selection is not None else ""


def told_key(metadata: Metadata | None) -> Metadata | None:
    """What was told, without what no sync depends on."""
    if metadata is None:
        return None
    return dataclasses.replace(metadata, status_objects={}, operator_version="", jitter_ms=0)


def look(metadata: Metadata | None, identity: Identity, places: Places) -> View:
    """The view of this moment; reads files."""
    pod = surroundings.pod(identity, places)
    name = _name(pod)
    if metadata is None:
        return View(None, pod, name)
    hashed = orders.profile_hash(metadata.routing_hash, pod)
    return View(metadata, pod, name, _selection(metadata, pod, identity.cr_name), hashed)


def order(view: View, identity: Identity, places: Places) -> Order:
    """The order that brings about what was told; reads files."""
    metadata = view.metadata
    assert metadata is not None
    assert metadata.source is not None
    source = metadata.source
    try:
        remote = Remote.parse(source.git_url)
    except RemoteRefused as error:
        raise GitError("NotFound", f"the repository's address: {error}") from error
    credentials = surroundings.git_credentials(
        places, source, verifies_host_keys=metadata.policy.verify_host_keys
    )
    return Order(
        source=RemoteSource(remote, credentials),
        commit=source.commit,
        ref=source.ref,
        routing=metadata.routing,
        routing_hash=metadata.routing_hash,
        pod=view.pod,
        cr_name=identity.cr_name,
        safety=orders.safety_of(metadata, view.pod, surroundings.api_token_name(places)),
        caps=orders.caps_of(metadata.policy),
    )


def _name(pod: Pod) -> str:
    try:
        return gateway.name(pod)
    except Refused:
        return pod.name


def _selection(metadata: Metadata, pod: Pod, cr_name: str) -> Selection | None:
    """Without a routing a sync says why; here it is enough that there is none."""
    source = metadata.source
    revision = Revision(source.commit, source.ref, 0) if source is not None else Revision("", "", 0)
    try:
        return selection.selected(metadata.routing, pod, revision, cr_name=cr_name)
    except Refused:
        return None
