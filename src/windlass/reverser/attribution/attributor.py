"""Collects admission records and attributes changes to their authors.

`webhook_supervisor` delivers records, gaps and heartbeats here; the branch workers ask for the
author of each change. It knows since when records are complete, which the condition Attributed
reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from windlass.base.clock import Clock
from windlass.objects.names import GVR, Identity, Key
from windlass.reverser.attribution import record_join
from windlass.reverser.attribution.record_join import AuthorVerdict, Observation
from windlass.reverser.attribution.records import AdmissionRecord, AdmissionRecords
from windlass.reverser.attribution.webhook_coverage import (
    AttributionState,
    WebhookCoverage,
    WebhookHealth,
)
from windlass.reverser.attribution.webhook_frames import AnsweredFrame, RecordFrame
from windlass.reverser.metrics import MirrorMetrics

SILENCE_SECONDS = 0.8
"""Shorter than the second after which the API server gives a call up and goes on."""

RELOAD_SECONDS = 0.5
"""How long an API server may take to act by a webhook configuration that was changed."""

_RECORDED_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE"})


class Attributor:
    """Admission records, and the verdicts they allow."""

    def __init__(
        self,
        records: AdmissionRecords,
        tally: MirrorMetrics,
        clock: Clock,
        *,
        coverage: WebhookCoverage | None = None,
        on_hearing: Callable[[], None] = lambda: None,
        definition_deleted: Callable[[GVR], bool] = lambda _: False,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self.serving = False
        self._coverage = coverage or WebhookCoverage()
        self._hearing = WebhookHealth(self._coverage)
        self._on_hearing = on_hearing
        self._definition_deleted = definition_deleted
        self._records = records
        self._tally = tally
        self._clock = clock
        self._evicted = dict(records.evictions)
        self._proving: asyncio.TimerHandle | None = None
        self._silence_seconds = silence_seconds
        self._awake_at = 0.0
        self._asked = False
        self._unasked_since: float | None = None
        self._lost_until = 0.0
        """Until when calls may leave no record, although somebody answers again."""
        self._began = float("inf")
        """Since when there are records; changes soon after it look back to before."""
        self._is_complete = False
        self._missed: set[Key] = set()

    def record(self, told: RecordFrame) -> None:
        if told.operation not in _RECORDED_OPERATIONS:
            return
        self._tally.metrics.webhook_correlations.inc("leader")
        self._records.add(_to_record(told), self._clock.monotonic())
        for reason, count in self._records.evictions.items():
            if count > self._evicted[reason]:
                amount = count - self._evicted[reason]
                self._tally.metrics.kv_evictions.inc(reason, amount=amount)
                self._evicted[reason] = count

    def lost(self, start: float, end: float, calls: int) -> None:
        """Calls of that time left no record; `calls` were counted, more may have come."""
        self._records.lost(start, end)
        self._lost_until = max(self._lost_until, end)
        self._doubt()
        if calls:
            self._tally.metrics.kv_evictions.inc("overflow", amount=calls)

    def beat(self, time: float) -> None:
        """The witness was awake at `time`; a long silence before it may hide calls."""
        self._note_silence(time)
        self._awake_at = time

    def _note_silence(self, until: float) -> None:
        if until - self._awake_at > self._silence_seconds:
            self._records.lost(self._awake_at, until)
            self._doubt()

    def answered(self, told: AnsweredFrame) -> None:
        if told.calls and self._hearing.called():
            self._on_hearing()
        self._tally.metrics.events_received.inc("leader", amount=told.calls)
        for seconds in told.seconds:
            self._tally.metrics.admission_seconds.observe(seconds)

    def wrote(self, destination: Key, identity: Identity) -> None:
        """A change for that destination was seen, about which somebody must have been asked."""
        news = self._hearing.wrote(identity, self._clock.monotonic())
        if not self._is_complete and destination not in self._missed:
            self._missed.add(destination)
            news = True
        if news:
            self._on_hearing()

    @property
    def standing(self) -> AttributionState:
        """What is to be said of admission calls."""
        if self._hearing.heard is False:
            return "NoAdmissionCalls"
        return "Receiving" if self._is_complete else "Starting"

    def is_settling(self, destination: Key) -> bool:
        """Whether records are about to be complete, and no change there came before."""
        comes = not self._is_complete and self._unasked_since is None
        return comes and destination not in self._missed

    def serves(self, serving: bool) -> None:
        """The witness began or ceased to answer."""
        if self.serving and not serving:
            # Until the silence is long enough to be noticed as such.
            until = self._clock.monotonic() + self._silence_seconds
            self._records.lost(self._awake_at, until)
            self._lost_until = max(self._lost_until, until)
        self.serving = serving
        self._doubt()

    def asks(self, asked: bool) -> None:
        """The API server is told to ask us, or it is not and calls reach nobody."""
        now = self._clock.monotonic()
        if not asked and self._unasked_since is None:
            self._unasked_since = now - SILENCE_SECONDS
            self._on_hearing()
        if asked and self._unasked_since is not None:
            self._lost_until = max(self._lost_until, now + RELOAD_SECONDS)
            self._records.lost(self._unasked_since, now + RELOAD_SECONDS)
            self._unasked_since = None
        if asked != self._asked or not asked:
            self._asked = asked
            self._doubt()

    def _doubt(self) -> None:
        """Records are missing; that matters for as long as a change may look back."""
        self._tally.metrics.authors_provable.set(0)
        if self._proving is not None:
            self._proving.cancel()
            self._proving = None
        if self.serving and self._asked:
            now = self._clock.monotonic()
            since = max(now, self._lost_until)
            self._began = since if not self._is_complete else self._began
            self._proving = asyncio.get_running_loop().call_later(
                since + record_join.REACH_SECONDS - now, self._complete
            )

    def _complete(self) -> None:
        self._tally.metrics.authors_provable.set(1)
        if not self._is_complete:
            self._is_complete = True
            self._on_hearing()

    def judge(self, observation: Observation) -> AuthorVerdict:
        """Who made a change, by what is known now."""
        now = self._clock.monotonic()
        self._note_silence(now)
        if self._unasked_since is not None:
            self._records.lost(self._unasked_since, now)
        gvr = observation.identity.gvr
        if observation.operation == "DELETE" and self._definition_deleted(gvr):
            # The API server removes such objects itself and asks nobody.
            return AuthorVerdict("unresolved", None, "DefinitionDeleted")
        found = record_join.attribute_change(observation, self._records, self._coverage, now=now)
        started = observation.received > self._began + record_join.REACH_SECONDS
        if found.reason == "RecordsLost" and not started:
            return AuthorVerdict("unresolved", None, "Starting")
        return found


def _to_record(told: RecordFrame) -> AdmissionRecord:
    return AdmissionRecord(
        time=told.time,
        user=told.user,
        operation=told.operation,  # type: ignore[arg-type]
        gvr=GVR(told.group, told.version, told.resource),
        uid=told.uid,
        old_resource_version=told.old_resource_version,
        content=told.content,
        replicas=told.replicas,
        subresource=told.subresource,
        namespace=told.namespace,
        name=told.name,
        email=told.email,
        display_name=told.display_name,
    )
