"""What the controller keeps of what its witness tells."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from windlass.base.clock import SystemClock
from windlass.reverser.decide.records import Records
from windlass.reverser.tally import Tally
from windlass.reverser.witnesses import Witnesses
from windlass.telemetry.metrics import Metrics

_DROPPED = "gitopsreverser_kv_evictions_total"


def test_calls_that_left_no_record_are_counted() -> None:
    """ATT-2: what the witness's queue could not take is in the metrics, and is a loss."""
    registry, records = CollectorRegistry(), Records()
    witnesses = Witnesses(records, Tally(Metrics(registry)), SystemClock())
    witnesses.lost(1.0, 2.0, 7)
    witnesses.lost(5.0, 6.0, 0)
    assert registry.get_sample_value(_DROPPED, {"reason": "overflow"}) == 7
    assert records.was_lost(0.0, 1.5)
    assert records.was_lost(5.5, 7.0)
    assert not records.was_lost(2.5, 4.5)
