"""The metrics of the gateways capability.

Series of an IgnitionSync carry `cr_namespace` together with `cr` and go with it.
"""

from __future__ import annotations

from windlass.telemetry.metric_table import WORK_BUCKETS, Table, count, level, spread

_GATEWAYS = "windlass_gateways_"
_CR = ("cr_namespace", "cr")


class GatewayMetrics(Table):
    """All of them, in one registry."""

    reconciles = count(_GATEWAYS + "reconcile_total", "Passes by result.", "result")
    reconcile_seconds = spread(
        _GATEWAYS + "reconcile_duration_seconds", "Time of one pass.", buckets=WORK_BUCKETS
    )
    ready = level(_GATEWAYS + "ready", "1 while all gateways have what is wanted.", *_CR)
    paused = level(_GATEWAYS + "paused", "1 while spec.paused is true.", *_CR)
    condition = level(
        _GATEWAYS + "condition", "1 for what a condition says.", *_CR, "type", "status"
    )
    discovered = level(_GATEWAYS + "discovered", "Gateways found.", *_CR)
    synced = level(_GATEWAYS + "synced", "Gateways that have what is wanted.", *_CR)
    missing_sidecar = level(_GATEWAYS + "missing_sidecar", "Gateways without an agent.", *_CR)
    degraded = level(_GATEWAYS + "degraded", "Gateways that run on older files.", *_CR)
    drifted_files = level(
        _GATEWAYS + "drifted_files", "Files that differ from Git.", *_CR, "gateway"
    )
    gateway_status = level(
        _GATEWAYS + "gateway_status", "1 for how a gateway is.", *_CR, "gateway", "status"
    )
    last_sync = level(
        _GATEWAYS + "last_sync_timestamp_seconds", "When its last sync ended.", *_CR, "gateway"
    )
    ref_resolves = count(
        _GATEWAYS + "ref_resolve_total", "Questions for a commit, by answer.", "result"
    )
    ref_resolve_seconds = spread(
        _GATEWAYS + "ref_resolve_duration_seconds",
        "Time until a question for a commit was answered.",
        buckets=WORK_BUCKETS,
    )
    ref_resolves_shared = count(
        _GATEWAYS + "ref_resolve_shared_total",
        "Questions for a commit that the answer to somebody else's served.",
    )

    def forget_condition(self, namespace: str, name: str, kind: str) -> None:
        """Remove what one condition said."""
        self.condition.forget({"cr_namespace": namespace, "cr": name, "type": kind})

    def forget_cr(self, namespace: str, name: str) -> None:
        """Remove every series of an IgnitionSync that is gone."""
        self.forget(cr_namespace=namespace, cr=name)

    def forget_gateways(self, namespace: str, name: str) -> None:
        """Remove the series of single gateways, before those that are there are told anew."""
        for line in (self.drifted_files, self.gateway_status, self.last_sync):
            line.forget({"cr_namespace": namespace, "cr": name})
