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
    """Sets the metrics of the gateways capability; labels are namespace and name of the CR."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self.metrics = metrics

    def record_reconcile(self, reconcile: ReconcileResult) -> None:
        """Count one reconcile; postponed ones did no work, so their time is not observed."""
        self.metrics.reconciles.inc(reconcile.result)
        if reconcile.result != "postponed":
            self.metrics.reconcile_seconds.observe(reconcile.seconds)

    def record_resolve(self, result: str, seconds: float) -> None:
        """Count one poll of a ref; `result` is `ok` or the error's reason."""
        self.metrics.ref_resolves.inc(result)
        self.metrics.ref_resolve_seconds.observe(seconds)

    def record_shared_resolve(self) -> None:
        """Count one poll that the listing of another IgnitionSync answered."""
        self.metrics.ref_resolves_shared.inc()

    def record_outcome(self, key: Key, outcome: Outcome) -> None:
        """Set the conditions of a reconcile, also of one that ended in an error.

        A transient error changes nothing here, as it does not change a Ready that is True.
        """
        if outcome.ready is None or outcome.transient:
            return
        labels = (key.namespace, key.name)
        self.metrics.ready.set(outcome.ready.status == "True", *labels)
        for kind in (STALLED, RECONCILING, *outcome.withdrawn):
            self.metrics.forget_condition(*labels, kind)
        for kind, status in _condition_statuses(outcome):
            self.metrics.forget_condition(*labels, kind)
            self.metrics.condition.set(1, *labels, kind, status)

    def record_fleet(self, key: Key, fleet: FleetStatus | None, *, is_paused: bool) -> None:
        """Set the gauges of a completed reconcile; without a fleet the last counts stay."""
        labels = (key.namespace, key.name)
        self.metrics.paused.set(is_paused, *labels)
        if fleet is None:
            return
        counts = fleet.counts
        self.metrics.discovered.set(counts.total, *labels)
        self.metrics.synced.set(counts.synced, *labels)
        self.metrics.missing_sidecar.set(counts.missing_sidecar, *labels)
        self.metrics.degraded.set(counts.degraded, *labels)
        self.metrics.forget_gateways(*labels)
        for member in fleet.gateways:
            self._record_gateway(labels, member)

    def forget(self, key: Key) -> None:
        self.metrics.forget_cr(key.namespace, key.name)

    def _record_gateway(self, labels: tuple[str, str], member: GatewaySyncStatus) -> None:
        name, report = member.gateway.name, member.report
        self.metrics.gateway_status.set(1, *labels, name, member.status)
        if report is None:
            return
        if report.drift is not None:
            drifted = report.drift.modified + report.drift.missing + report.drift.extra
            self.metrics.drifted_files.set(drifted, *labels, name)
        if report.last_sync_time is not None:
            self.metrics.last_sync.set(report.last_sync_time.timestamp(), *labels, name)


class MeteredReporter:
    """A reporter that also records each outcome in the metrics."""

    def __init__(self, reporter: Reporter, recorder: GatewayMetricsRecorder) -> None:
        self._reporter = reporter
        self._recorder = recorder

    def read_status(self, key: Key) -> StatusSnapshot | None:
        return self._reporter.read_status(key)

    async def report(self, key: Key, snapshot: StatusSnapshot | None, outcome: Outcome) -> None:
        self._recorder.record_outcome(key, outcome)
        await self._reporter.report(key, snapshot, outcome)


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
