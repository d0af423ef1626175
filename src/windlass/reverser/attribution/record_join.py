"""Joins a change with its admission records: the author, if they prove one (tier 1, exact join).

A wrong author is worse than none (P6). The table of ATT-4, and nothing else:

| change | candidates | verdict |
|---|---|---|
| update | (uid, tracked version), UPDATE | content equal, one user: exact |
| update in another API version | same | one user in all candidates, <= 10 s old: chain |
| scale | same, subresource scale | replicas equal, one user: exact |
| create | (uid), CREATE | content equal: exact; other version, one user: chain |
| delete or its intent | (uid, tracked version), DELETE, <= 10 s old | one user: exact |
| any, several users left | | unresolved, Ambiguous |
| any, comparable but none equal | | unresolved, ContentMismatch |

A record is a candidate only if it names the watched object: group, resource, namespace,
name and uid. The true record of a change is among the candidates unless it was lost. It is
one that matches or one that cannot be compared; so a verdict is given only where both kinds
name one user, none where records were lost (ATT-3), and none where the API server sends no
request (see `webhook_coverage`). Nearness in time and managedFields prove nothing (ATT-6).

A change is judged when its window closes, and where that takes long, five seconds after it was
received (ATT-7); by then every record that may explain it has arrived, or counts as lost. Of a
deletion the intent is judged, which is observed first (ATT-8).

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from windlass.objects.names import Identity
from windlass.reverser.attribution.author import Actor
from windlass.reverser.attribution.records import AdmissionRecord, AdmissionRecords, RecordLink
from windlass.reverser.attribution.webhook_coverage import WebhookCoverage
from windlass.reverser.file_operation import Operation

Tier = Literal["exact", "chain", "sync", "unresolved"]
UnresolvedReason = Literal[
    "",
    "NoRecord",
    "Ambiguous",
    "ContentMismatch",
    "RecordsLost",
    "VersionUnknown",
    "KindNotCovered",
    "NamespaceNotCovered",
    "SubresourceNotCovered",
    "DefinitionDeleted",
    "Starting",
]
# How a record compares with a change; see `_compare_record`.
_Match = Literal["equal", "different", "foreign", "blank"]

FRESH_SECONDS = 10.0
"""The age of a record, at the receipt of its change, above which it is no candidate by time."""

REACH_SECONDS = 1.5
"""How long before a change, or before another attempt on its predecessor, its record may have
been made: the second after which the API server goes on without our answer, and half as much for
the write. Other webhooks may delay a write longer, but a wrong author also needs two users with
equal content on one version.
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """A change that a stream observed, with what was tracked of the object before it."""

    uid: str
    """metadata.uid of the object."""
    operation: Operation
    """What the change did to the object."""
    previous_resource_version: str | None
    """The tracked version before the change; None for a create, or if it is not known."""
    identity: Identity
    """The object, in the API version of the stream."""
    content: bytes | None
    """Digest of the clean object after the change; None for a deletion."""
    received: float
    """When the stream received it, monotonic."""
    replicas: int | None = None
    """spec.replicas after the change; None if the object has none."""
    previous_replicas: int | None = None
    """The tracked count before it: a scale record explains only a change of the count."""
    bypasses_admission: bool = False
    """Whether it came through a subresource without admission requests."""

    @property
    def link(self) -> RecordLink:
        """The key of the records that may explain the change."""
        creating = self.operation == "CREATE"
        return self.uid, "" if creating else self.previous_resource_version or ""


@dataclass(frozen=True, slots=True)
class AuthorVerdict:
    """The actor and how well that is proven, or the reason why there is none."""

    tier: Tier
    actor: Actor | None = None
    reason: UnresolvedReason = ""


def attribute_change(
    observation: Observation,
    records: AdmissionRecords,
    coverage: WebhookCoverage,
    *,
    now: float,
    recorded_until: float,
) -> AuthorVerdict:
    """The verdict from all kept records, aware of the gaps between them.

    Gaps count from the oldest attempt on the same predecessor: a stream may lag far behind, so
    the receipt of a change does not show when its record was made. The record of a change that
    was not received before `recorded_until` may still wait in the webhook process, and is lost.
    """
    gap = coverage.gap(observation.identity)
    if gap is not None:
        return _unresolved(gap)
    candidates = records.candidates(observation.uid, now)
    attempts = [record.time for record in candidates if record.link == observation.link]
    since = min(observation.received, *attempts, now) - REACH_SECONDS
    lost = recorded_until <= observation.received or records.has_gap(since, now, observation.link)
    return judge_change(observation, candidates, lost=lost)


def judge_change(
    observation: Observation, records: Sequence[AdmissionRecord], *, lost: bool
) -> AuthorVerdict:
    """ATT-4 by the table above; with `lost` the true record may be missing."""
    if observation.bypasses_admission:
        return _unresolved("SubresourceNotCovered")
    if not _is_version_known(observation):
        return _unresolved("VersionUnknown")
    if lost:
        return _unresolved("RecordsLost")
    candidates = [record for record in records if _is_candidate(observation, record)]
    if not candidates:
        return _unresolved("NoRecord")
    if observation.operation == "DELETE":
        return _judge_by_time(observation, candidates)
    return _judge_by_content(observation, candidates)


def _judge_by_time(
    observation: Observation, candidates: Sequence[AdmissionRecord]
) -> AuthorVerdict:
    """Deletes: the newest attempt must be fresh and no other user have tried just before it.

    The candidates are those near the newest one, so two simultaneous deletes are compared
    however late the change arrives; an attempt after the change hides none before it.
    """
    newest = max(record.time for record in candidates)
    if observation.received - newest > FRESH_SECONDS:
        return _unresolved("NoRecord")
    until = min(newest, observation.received)
    return _resolve_author(
        "exact", [record for record in candidates if until - record.time <= FRESH_SECONDS]
    )


def _judge_by_content(
    observation: Observation, candidates: Sequence[AdmissionRecord]
) -> AuthorVerdict:
    matches = {record: _compare_record(observation, record) for record in candidates}
    equal = [record for record in candidates if matches[record] == "equal"]
    foreign = [record for record in candidates if matches[record] == "foreign"]
    if equal:
        unknown = [record for record in candidates if matches[record] == "blank"]
        return _resolve_author("exact", equal, others=foreign + unknown)
    if not foreign:
        return _unresolved("ContentMismatch")
    if observation.operation == "UPDATE" and not _is_any_fresh(observation, foreign):
        return _unresolved("NoRecord")
    return _resolve_author("chain", foreign, others=candidates)


def _is_version_known(observation: Observation) -> bool:
    return observation.operation == "CREATE" or bool(observation.previous_resource_version)


def _is_candidate(observation: Observation, record: AdmissionRecord) -> bool:
    if record.uid != observation.uid or record.operation != observation.operation:
        return False
    if not _names_object(record, observation.identity):
        return False
    if observation.operation == "CREATE":
        return not record.subresource
    if record.old_resource_version != observation.previous_resource_version:
        return False
    return observation.operation == "UPDATE" or not record.subresource


def _names_object(record: AdmissionRecord, identity: Identity) -> bool:
    """Whether the record is of that object, in whatever API version."""
    ours, theirs = identity.gvr, record.gvr
    return (ours.group, ours.resource, identity.namespace, identity.name) == (
        theirs.group,
        theirs.resource,
        record.namespace,
        record.name,
    )


def _compare_record(observation: Observation, record: AdmissionRecord) -> _Match:
    """How a record compares; `foreign` is of another API version, `blank` has no content."""
    if record.subresource == "scale":
        return _compare_scale(observation, record)
    if record.gvr.version != observation.identity.gvr.version:
        return "foreign"
    if record.content is None or observation.content is None:
        return "blank"
    return "equal" if record.content == observation.content else "different"


def _compare_scale(observation: Observation, record: AdmissionRecord) -> _Match:
    if None in (record.replicas, observation.replicas, observation.previous_replicas):
        return "blank"
    moved = observation.replicas != observation.previous_replicas
    return "equal" if moved and record.replicas == observation.replicas else "different"


def _is_any_fresh(observation: Observation, records: Iterable[AdmissionRecord]) -> bool:
    # Measured to the change and not to now: a window may close much later (ATT-7).
    return any(observation.received - record.time <= FRESH_SECONDS for record in records)


def _resolve_author(
    tier: Tier, winners: Sequence[AdmissionRecord], *, others: Sequence[AdmissionRecord] = ()
) -> AuthorVerdict:
    if len({record.user for record in (*winners, *others)}) > 1:
        return _unresolved("Ambiguous")
    newest = max(winners, key=lambda record: record.time)
    return AuthorVerdict(tier, Actor(newest.user, newest.email, newest.display_name))


def _unresolved(reason: UnresolvedReason) -> AuthorVerdict:
    return AuthorVerdict("unresolved", None, reason)
