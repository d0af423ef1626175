"""What the passes are counted and shown by."""

from __future__ import annotations

from windlass.gateways.decide.standing import Standing, Tally
from windlass.objects.key import Key
from windlass.runtime.controller import Passed
from windlass.runtime.outcome import Outcome
from windlass.telemetry.gateway_metrics import GatewayMetrics


class Measures:
    """The capability's side of the metrics table."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self.metrics = metrics

    def passed(self, passed: Passed) -> None:
        """One pass; those that were put off looked at nothing."""
        self.metrics.reconciles.inc(passed.result)
        if passed.result != "postponed":
            self.metrics.reconcile_seconds.observe(passed.seconds)

    def answered(self, result: str, seconds: float) -> None:
        """One question for a commit."""
        self.metrics.ref_resolves.inc(result)
        self.metrics.ref_resolve_seconds.observe(seconds)

    def concluded(
        self, key: Key, outcome: Outcome, tally: Tally | None, *, is_paused: bool
    ) -> None:
        """What a pass found."""
        place = (key.namespace, key.name)
        ready = outcome.ready is not None and outcome.ready.status == "True"
        self.metrics.ready.set(ready, *place)
        self.metrics.paused.set(is_paused, *place)
        if tally is None:
            return
        counts = tally.counts
        self.metrics.discovered.set(counts.total, *place)
        self.metrics.synced.set(counts.synced, *place)
        self.metrics.missing_sidecar.set(counts.missing_sidecar, *place)
        self.metrics.degraded.set(counts.degraded, *place)
        self.metrics.forget_gateways(*place)
        for one in tally.standings:
            self._gateway(place, one)

    def gone(self, key: Key) -> None:
        self.metrics.forget_cr(key.namespace, key.name)

    def _gateway(self, place: tuple[str, str], one: Standing) -> None:
        name, said = one.gateway.name, one.report
        self.metrics.gateway_status.set(1, *place, name, one.status)
        if said is None:
            return
        if said.drift is not None:
            drifted = said.drift.modified + said.drift.missing + said.drift.extra
            self.metrics.drifted_files.set(drifted, *place, name)
        if said.last_sync_time is not None:
            self.metrics.last_sync.set(said.last_sync_time.timestamp(), *place, name)
