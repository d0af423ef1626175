"""Collects admission records and attributes changes to their authors.

`webhook_supervisor` delivers records, gaps and heartbeats; the publisher calls `judge` for the
author of each change; the mirror reports observed writes. The condition Attributed reports since
when records are complete. All times are monotonic.
"""

from __future__ import annotations

import asyncio
import contextlib
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
"""A heartbeat gap above this may hide calls; the API server gives up a call after a second."""

RELOAD_SECONDS = 0.5
"""How long an API server may take to apply a changed webhook configuration."""

_SETTLING_SECONDS = 10.0
"""How long after a start a status waits for complete records, however long they take."""

_RECORDED_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE"})


class Attributor:
    """Admission records with their gaps, and the author verdicts that they allow."""

    def __init__(
        self,
        records: AdmissionRecords,
        metrics: MirrorMetrics,
        clock: Clock,
        *,
        coverage: WebhookCoverage | None = None,
        on_state_change: Callable[[], None] = lambda: None,
        definition_deleted: Callable[[GVR], bool] = lambda _: False,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        # Whether the webhook process answers admission requests.
        self.serving = False
        self._coverage = coverage or WebhookCoverage()
        self._health = WebhookHealth(self._coverage)
        # Called when `state` or `is_settling` may have changed for any destination.
        self._on_state_change = on_state_change
        # Whether the CustomResourceDefinition of a type was deleted.
        self._definition_deleted = definition_deleted
        self._records = records
        self._metrics = metrics
        self._clock = clock
        # Evictions of `records` that the metric has counted already, by reason.
        self._counted_evictions = dict(records.evictions)
        # Fires when records are complete for as long as a change may look back; else None.
        self._complete_timer: asyncio.TimerHandle | None = None
        self._silence_seconds = silence_seconds
        # Time of the webhook's last heartbeat.
        self._heartbeat_at = 0.0
        # Of requests answered before that time, every record has arrived or is a known loss.
        self._recorded_until = 0.0
        # Wakes who waits for `_recorded_until` at each heartbeat; never stays set.
        self._heard = asyncio.Event()
        # Has the webhook process send a heartbeat at once; set by who runs that process.
        self.request_heartbeat: Callable[[], None] = lambda: None
        # Whether the ValidatingWebhookConfiguration sends requests to us.
        self._registered = False
        # Since when it does not; None while it does, and before it was first checked.
        self._unregistered_since: float | None = None
        # Until when calls may leave no record, although the webhook answers again.
        self._gap_until = 0.0
        # Since when there are records; a change soon after may need an earlier one.
        self._complete_since = float("inf")
        # Set once, when records were complete for the first time.
        self._is_complete = False
        # Set once, when the time after a start is over in which records should become complete.
        self._settling_ended = False
        # Destinations with a change from before `_is_complete`, which has no author.
        self._unattributed: set[Key] = set()

    def add_record(self, frame: RecordFrame) -> None:
        """Keep the record of an admission request and count evictions."""
        if frame.operation not in _RECORDED_OPERATIONS:
            return
        self._metrics.metrics.webhook_correlations.inc("leader")
        self._records.add(_to_record(frame), self._clock.monotonic())
        for reason, count in self._records.evictions.items():
            if count > self._counted_evictions[reason]:
                amount = count - self._counted_evictions[reason]
                self._metrics.metrics.kv_evictions.inc(reason, amount=amount)
                self._counted_evictions[reason] = count

    def add_gap(self, start: float, end: float, calls: int) -> None:
        """Note that calls left no record; `calls` of them were counted, there may be more."""
        self._records.add_gap(start, end)
        self._gap_until = max(self._gap_until, end)
        self._mark_incomplete()
        if calls:
            self._metrics.metrics.kv_evictions.inc("overflow", amount=calls)

    def heartbeat(self, time: float, recorded_until: float) -> None:
        """Note that the webhook ran at `time`; a long silence before it is a gap.

        Of requests answered before `recorded_until`, every record was added or is in a gap.
        """
        self._note_silence(time)
        self._heartbeat_at = time
        self._recorded_until = max(self._recorded_until, recorded_until)
        self._heard.set()
        self._heard.clear()

    async def await_records(self, received: float) -> None:
        """Wait until the records of changes received until then have arrived.

        A request is answered before its write is stored, and that before the change is received;
        so the webhook process, asked now, needs a moment at most. If it takes longer than a
        silence may last, the records count as lost: attribution does not delay state.
        """
        if self._recorded_until > received or not self.serving:
            return
        self.request_heartbeat()
        patience = received + self._silence_seconds - self._clock.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._recorded_until <= received:
                    await self._heard.wait()

    def _note_silence(self, until: float) -> None:
        if until - self._heartbeat_at > self._silence_seconds:
            self._records.add_gap(self._heartbeat_at, until)
            self._mark_incomplete()

    def count_calls(self, frame: AnsweredFrame) -> None:
        """Count answered admission requests; the first one makes the webhook healthy."""
        if frame.calls and self._health.record_call():
            self._on_state_change()
        self._metrics.metrics.events_received.inc("leader", amount=frame.calls)
        for seconds in frame.seconds:
            self._metrics.metrics.admission_seconds.observe(seconds)

    def record_write(self, destination: Key, identity: Identity) -> None:
        """Note a change for that destination; an admission request should precede it."""
        changed = self._health.record_write(identity, self._clock.monotonic())
        if not self._is_complete and destination not in self._unattributed:
            self._unattributed.add(destination)
            changed = True
        if changed:
            self._on_state_change()

    @property
    def state(self) -> AttributionState:
        """The reason of the condition Attributed."""
        if self._health.is_receiving is False:
            return "NoAdmissionCalls"
        return "Receiving" if self._is_complete else "Starting"

    def is_settling(self, destination: Key) -> bool:
        """Whether records will be complete soon and the destination has no change before."""
        will_complete = not (self._is_complete or self._settling_ended)
        is_registered = self._unregistered_since is None
        return will_complete and is_registered and destination not in self._unattributed

    def limit_settling(self) -> None:
        """Report that records are incomplete after a while: a webhook that hangs may for ever."""
        asyncio.get_running_loop().call_later(_SETTLING_SECONDS, self._end_settling)

    def _end_settling(self) -> None:
        self._settling_ended = True
        if not self._is_complete:
            self._on_state_change()

    def set_serving(self, serving: bool) -> None:
        """Note that the webhook began or ceased to answer."""
        if self.serving and not serving:
            # From then on the missing heartbeats make the gap.
            until = self._clock.monotonic() + self._silence_seconds
            # Records that still waited in the process are lost with it.
            self._records.add_gap(min(self._heartbeat_at, self._recorded_until), until)
            self._gap_until = max(self._gap_until, until)
        self.serving = serving
        self._mark_incomplete()

    def set_registered(self, registered: bool) -> None:
        """Note whether the webhook configuration sends requests to us; else calls are a gap."""
        now = self._clock.monotonic()
        if not registered and self._unregistered_since is None:
            self._unregistered_since = now - SILENCE_SECONDS
            self._on_state_change()
        if registered and self._unregistered_since is not None:
            self._gap_until = max(self._gap_until, now + RELOAD_SECONDS)
            self._records.add_gap(self._unregistered_since, now + RELOAD_SECONDS)
            self._unregistered_since = None
        if registered != self._registered or not registered:
            self._registered = registered
            self._mark_incomplete()

    def _mark_incomplete(self) -> None:
        """Start again the time after which records count as complete."""
        self._metrics.metrics.authors_provable.set(0)
        if self._complete_timer is not None:
            self._complete_timer.cancel()
            self._complete_timer = None
        if self.serving and self._registered:
            now = self._clock.monotonic()
            since = max(now, self._gap_until)
            self._complete_since = since if not self._is_complete else self._complete_since
            self._complete_timer = asyncio.get_running_loop().call_later(
                since + record_join.REACH_SECONDS - now, self._mark_complete
            )

    def _mark_complete(self) -> None:
        now = self._clock.monotonic()
        if now - self._heartbeat_at > self._silence_seconds:
            # The webhook still hangs; how long, only its next heartbeat will tell.
            self._gap_until = now
            self._mark_incomplete()
            return
        self._metrics.metrics.authors_provable.set(1)
        if not self._is_complete:
            self._is_complete = True
            self._on_state_change()

    def judge(self, observation: Observation) -> AuthorVerdict:
        """The author of a change by the records of now, or the reason why there is none."""
        now = self._clock.monotonic()
        self._note_silence(now)
        if self._unregistered_since is not None:
            self._records.add_gap(self._unregistered_since, now)
        gvr = observation.identity.gvr
        if observation.operation == "DELETE" and self._definition_deleted(gvr):
            # The API server removes such objects itself, without an admission request.
            return AuthorVerdict("unresolved", None, "DefinitionDeleted")
        verdict = record_join.attribute_change(
            observation,
            self._records,
            self._coverage,
            now=now,
            recorded_until=self._recorded_until,
        )
        early = observation.received <= self._complete_since + record_join.REACH_SECONDS
        # Right after a start missing records are no loss that a user could investigate; a webhook
        # that is not registered is one, however long ago the start was.
        if verdict.reason == "RecordsLost" and early and self._unregistered_since is None:
            return AuthorVerdict("unresolved", None, "Starting")
        return verdict


def _to_record(frame: RecordFrame) -> AdmissionRecord:
    return AdmissionRecord(
        time=frame.time,
        user=frame.user,
        operation=frame.operation,  # type: ignore[arg-type]
        gvr=GVR(frame.group, frame.version, frame.resource),
        uid=frame.uid,
        old_resource_version=frame.old_resource_version,
        content=frame.content,
        replicas=frame.replicas,
        subresource=frame.subresource,
        namespace=frame.namespace,
        name=frame.name,
        email=frame.email,
        display_name=frame.display_name,
    )
