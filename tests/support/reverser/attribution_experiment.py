"""The experiment behind attribution: all writes of known users are recorded and judged.

Beside the writes of `ObjectLifecycle` there are our own recording webhook and a raw watch of each
type, joined by the operator's own judge. A row of the table holds the verdicts against
the truth, and says where an admitted object differs from the watched one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry

from tests.support.reverser.attribution_lifecycle import GroundTruth, ObjectLifecycle
from tests.support.reverser.attribution_samples import LABEL, Sample
from windlass.base.clock import SystemClock
from windlass.kube.connection import Connection
from windlass.kube.reflector import Observed, Scope, SnapshotComplete, reflect
from windlass.objects.names import JSON
from windlass.reverser.attribution import webhook_record
from windlass.reverser.attribution.attributor import Attributor
from windlass.reverser.attribution.record_join import AuthorVerdict, Observation
from windlass.reverser.attribution.records import AdmissionRecords
from windlass.reverser.attribution.webhook_frames import RecordFrame
from windlass.reverser.content import object_decoder, sanitize
from windlass.reverser.content.clean_object import CleanObject, ObjectReader
from windlass.reverser.file_operation import Operation
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.watch.tracker import ObjectTracker, TrackedObject
from windlass.telemetry.reverser import ReverserMetrics
from windlass.web.admission import AdmissionRequest

_KEY = b"a key that only this experiment knows"
# The version that a write makes cannot be known before it is made.
_VERSION = {".metadata.resourceVersion"}
_SETTLE_SECONDS = 45.0


@dataclass(frozen=True)
class Change:
    """A change seen in a stream; `first` is the verdict of the moment it arrived."""

    observation: Observation
    resource_version: str
    object: bytes
    first: AuthorVerdict
    last: AuthorVerdict | None = None


class Recorder:
    """Records admission requests as the webhook does, and keeps the objects to explain verdicts."""

    def __init__(self) -> None:
        self.records: dict[str, list[tuple[RecordFrame, bytes]]] = defaultdict(list)
        # This webhook runs in the test's own process and cannot fail unnoticed.
        metrics = MirrorMetrics(ReverserMetrics(CollectorRegistry()))
        self.attributor = Attributor(
            AdmissionRecords(), metrics, SystemClock(), silence_seconds=float("inf")
        )
        # Each request is recorded before it is answered.
        self.attributor.heartbeat(0.0, math.inf)
        self._settings = webhook_record.RecordSettings(_KEY, frozenset())

    def record(self, request: AdmissionRequest) -> None:
        record = webhook_record.build_record(request, self._settings, time.monotonic())
        if record is not None:
            self.attributor.add_record(record)
            self.records[record.uid].append((record, request.object))


class Watcher:
    """The raw stream of one type, tracked as the operator tracks it."""

    def __init__(self, sample: Sample, token: str, recorder: Recorder) -> None:
        self.changes: list[Change] = []
        self.seen: set[tuple[str, str]] = set()
        self.gone: set[str] = set()
        self.synced = asyncio.Event()
        self._sample = sample
        self._token = token
        self._recorder = recorder
        self._tracker = ObjectTracker()
        self._reader = ObjectReader(_KEY, frozenset(), noise_filter=False)

    async def run(self, connection: Connection) -> None:
        scope = Scope(self._sample.served.gvr, self._sample.namespace)
        async with aclosing(reflect(connection, scope)) as items:
            async for item in items:
                if isinstance(item, SnapshotComplete):
                    self.synced.set()
                elif isinstance(item, Observed):
                    self._observe(item)

    def _observe(self, item: Observed) -> None:
        served = self._sample.served
        clean_object = self._reader.read(served.gvr, served.kind, item.object)
        assert isinstance(clean_object, CleanObject), clean_object
        labels = clean_object.content["metadata"].get("labels") or {}
        if not served.namespaced and labels.get(LABEL) != self._token:
            return
        leaving = item.type == "DELETED" or clean_object.is_terminating
        known = self._tracker.get(clean_object.identity.key)
        known = known if known is not None and known.uid == clean_object.uid else None
        digest = b"" if leaving else clean_object.digest
        if not item.initial and (known is None or known.digest != digest):
            self._record_change(clean_object, known, item.object, leaving=leaving)
        tracked = TrackedObject(
            clean_object.uid, clean_object.resource_version, digest, clean_object.replicas
        )
        self._tracker.put(clean_object.identity.key, tracked)
        self.seen.add((clean_object.uid, clean_object.resource_version))
        if leaving:
            self.gone.add(clean_object.uid)

    def _record_change(
        self, clean_object: CleanObject, known: TrackedObject | None, raw: bytes, *, leaving: bool
    ) -> None:
        appeared: Operation = "CREATE" if known is None else "UPDATE"
        observation = Observation(
            uid=clean_object.uid,
            operation="DELETE" if leaving else appeared,
            previous_resource_version=known.resource_version if known else None,
            previous_replicas=known.replicas if known else None,
            identity=clean_object.identity,
            content=clean_object.digest,
            replicas=clean_object.replicas,
            received=time.monotonic(),
        )
        first = self._recorder.attributor.judge(observation)
        self.changes.append(Change(observation, clean_object.resource_version, raw, first))

    async def settle(self, truth: GroundTruth) -> None:
        """Wait until everything that was written has been seen, then judge it once more."""
        end = time.monotonic() + _SETTLE_SECONDS
        while missing := self._missing(truth):
            assert time.monotonic() < end, f"{self._sample.label}: not seen: {missing}"
            await asyncio.sleep(0.02)
        judge = self._recorder.attributor.judge
        self.changes = [replace(one, last=judge(one.observation)) for one in self.changes]

    def _missing(self, truth: GroundTruth) -> list[object]:
        unseen = [key for key in truth.writers if key not in self.seen]
        return [*unseen, *(truth.deleters.keys() - self.gone)]


@dataclass
class Row:
    """The verdicts of one kind; a row of the table."""

    kind: str
    versions: int = 1
    tried: int = 0
    refused: int = 0
    ours: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    uncleaned: set[str] = field(default_factory=set)
    differing: set[str] = field(default_factory=set)


def row(sample: Sample, life: ObjectLifecycle, watcher: Watcher, recorder: Recorder) -> Row:
    """Holds every verdict of one kind against the truth."""
    versions = 1 + len(sample.other_versions)
    result = Row(sample.label, versions, life.truth.tried, life.truth.refused)
    for change in watcher.changes:
        assert change.last is not None, "judged when the kind had settled"
        user = _writer(life.truth, change)
        operation = change.observation.operation
        for named in {one.actor.user for one in (change.first, change.last) if one.actor}:
            if named != user if user else named in life.names:
                result.wrong.append(f"{operation} by {user or 'another user'} credited to {named}")
        counter = result.ours if user else result.others
        reason = change.last.reason
        if reason == "Ambiguous":
            reason = f"{cause(change, user, recorder)} {operation.lower()}"
        counter[reason or change.last.tier] += 1
        if user:
            raw, clean = differences(change, user, recorder)
            result.uncleaned |= raw
            result.differing |= clean
    return result


def cause(change: Change, user: str | None, recorder: Recorder) -> str:
    """Why a change has two possible authors.

    `attempted`: deletes have no content, so a refused one cannot be distinguished.
    `foreign`: the same for writes in another version. `repeated`: another user applied again
    what `user` had just written, and the API server, whose cache did not have that write
    yet, asked about it with the same predecessor before it found that nothing changes.
    """
    observation = change.observation
    if observation.operation == "DELETE":
        return "attempted"
    records = [record for record, _ in recorder.records[observation.uid]]
    linked = [
        record
        for record in records
        if (record.uid, record.old_resource_version) == observation.link
    ]
    if any(
        f"{record.group}/{record.version}".lstrip("/") != observation.identity.gvr.api_version
        for record in linked
    ):
        return "foreign"
    equal = [
        record
        for record in linked
        if record.content == observation.content and not record.subresource
    ]
    first = min(equal, key=lambda record: record.time, default=None)
    return "repeated" if first is not None and first.user == user else "unexplained"


def differences(change: Change, user: str, recorder: Recorder) -> tuple[set[str], set[str]]:
    """Where the admitted object differs from the watched one, as they are and when cleaned."""
    observation = change.observation
    if observation.operation == "DELETE":
        return set(), set()
    linked = [
        (record, body)
        for record, body in recorder.records[observation.uid]
        if (record.user, record.operation) == (user, observation.operation)
        and (record.uid, record.old_resource_version) == observation.link
        and f"{record.group}/{record.version}".lstrip("/") == observation.identity.gvr.api_version
    ]
    if any(record.subresource for record, _ in linked):
        # The change may be that of the subresource, whose body is another object; a write of the
        # whole object with the same predecessor was refused then.
        return set(), set()
    watched = object_decoder.decode_object(change.object)
    admitted = [object_decoder.decode_object(body) for _, body in linked]
    raw = [set(paths(one, watched)) - _VERSION for one in admitted]
    clean = [
        set(paths(sanitize.sanitize_object(one), sanitize.sanitize_object(watched)))
        for one in admitted
    ]
    return min(raw, key=len, default=set()), min(clean, key=len, default=set())


def paths(old: JSON, new: JSON, path: str = "") -> Iterable[str]:
    """The paths at which two values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from paths(old.get(key), new.get(key), f"{path}.{key}")
    elif old != new:
        yield path


def _writer(truth: GroundTruth, change: Change) -> str | None:
    if change.observation.operation == "DELETE":
        return truth.deleters.get(change.observation.uid)
    return truth.writers.get((change.observation.uid, change.resource_version))


def table(rows: Iterable[Row]) -> str:
    """The rows as people read them."""
    head = (
        "kind",
        "attempts",
        "refused",
        "authors",
        "of others",
        "wrong",
        "differs before cleaning",
        "after",
    )
    lines = [
        (
            row.kind,
            str(row.tried),
            str(row.refused),
            _counts(row.ours),
            _counts(row.others),
            str(len(row.wrong)),
            " ".join(sorted(row.uncleaned)) or "-",
            " ".join(sorted(row.differing)) or "-",
        )
        for row in rows
    ]
    widths = [max(len(line[place]) for line in (head, *lines)) for place in range(len(head))]
    shown = (head, tuple("-" * width for width in widths), *lines)
    return "\n".join(
        "| "
        + " | ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True))
        + " |"
        for line in shown
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items())) or "-"
