"""Records reconciles, ref resolves, conditions and gateways in the metrics table.

The names and labels are declared in `windlass.telemetry`; here is when each is set, and
that the series of a deleted IgnitionSync are removed.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.gateways.status.gateway_status import FleetStatus, GatewaySyncStatus
from windlass.objects.condition import Status
from windlass.objects.names import Key
from windlass.runtime.controller import ReconcileResult
from windlass.runtime.outcome import READY, RECONCILING, STALLED, Outcome
from windlass.runtime.reporter import Reporter, StatusSnapshot
from windlass.telemetry.gateways import GatewayMetrics


class GatewayMetricsRecorder:
    """The capability's side of the metrics table."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self.metrics = metrics

    def record_reconcile(self, passed: ReconcileResult) -> None:
        """One pass; those that were put off looked at nothing."""
        self.metrics.reconciles.inc(passed.result)
        if passed.result != "postponed":
            self.metrics.reconcile_seconds.observe(passed.seconds)

    def record_resolve(self, result: str, seconds: float) -> None:
        """One question for a commit."""
        self.metrics.ref_resolves.inc(result)
        self.metrics.ref_resolve_seconds.observe(seconds)

    def record_shared_resolve(self) -> None:
        """One question that somebody else's answer served."""
        self.metrics.ref_resolves_shared.inc()

    def record_outcome(self, key: Key, outcome: Outcome) -> None:
        """What a pass came to, also one that ended in an error.

        A passing fault changes nothing here, as it does not change a Ready that is True.
        """
        if outcome.ready is None or outcome.transient:
            return
        place = (key.namespace, key.name)
        self.metrics.ready.set(outcome.ready.status == "True", *place)
        for kind in (STALLED, RECONCILING, *outcome.withdrawn):
            self.metrics.forget_condition(*place, kind)
        for kind, status in _condition_statuses(outcome):
            self.metrics.forget_condition(*place, kind)
            self.metrics.condition.set(1, *place, kind, status)

    def record_fleet(self, key: Key, tally: FleetStatus | None, *, is_paused: bool) -> None:
        """What a pass found that came to its end."""
        place = (key.namespace, key.name)
        self.metrics.paused.set(is_paused, *place)
        if tally is None:
            return
        counts = tally.counts
        self.metrics.discovered.set(counts.total, *place)
        self.metrics.synced.set(counts.synced, *place)
        self.metrics.missing_sidecar.set(counts.missing_sidecar, *place)
        self.metrics.degraded.set(counts.degraded, *place)
        self.metrics.forget_gateways(*place)
        for one in tally.gateways:
            self._record_gateway(place, one)

    def forget(self, key: Key) -> None:
        self.metrics.forget_cr(key.namespace, key.name)

    def _record_gateway(self, place: tuple[str, str], one: GatewaySyncStatus) -> None:
        name, said = one.gateway.name, one.report
        self.metrics.gateway_status.set(1, *place, name, one.status)
        if said is None:
            return
        if said.drift is not None:
            drifted = said.drift.modified + said.drift.missing + said.drift.extra
            self.metrics.drifted_files.set(drifted, *place, name)
        if said.last_sync_time is not None:
            self.metrics.last_sync.set(said.last_sync_time.timestamp(), *place, name)


class MeteredReporter:
    """A reporter whose reports are measured, too."""

    def __init__(self, reporter: Reporter, measures: GatewayMetricsRecorder) -> None:
        self._reporter = reporter
        self._recorder = measures

    def read_status(self, key: Key) -> StatusSnapshot | None:
        return self._reporter.read_status(key)

    async def report(self, key: Key, seen: StatusSnapshot | None, outcome: Outcome) -> None:
        self._recorder.record_outcome(key, outcome)
        await self._reporter.report(key, seen, outcome)


def _condition_statuses(outcome: Outcome) -> Iterator[tuple[str, Status]]:
    ready = outcome.ready
    if ready is not None and ready.status is not None:
        yield READY, ready.status
    if outcome.stalled:
        yield STALLED, "True"
    if outcome.reconciling:
        yield RECONCILING, "True"
    for row in outcome.conditions:
        yield row.type, row.status
