"""The metrics table and the metrics that are created from it."""

from __future__ import annotations

import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from windlass.telemetry import table
from windlass.telemetry.reverser import ReverserMetrics
from windlass.telemetry.table import CounterSeries, GaugeSeries, HistogramSeries


@pytest.fixture
def live() -> ReverserMetrics:
    """Metrics in a registry of their own."""
    return ReverserMetrics(CollectorRegistry())


def exposed(live: ReverserMetrics) -> str:
    """The text of a scrape."""
    return generate_latest(live.registry).decode()


def test_names_follow_the_conventions() -> None:
    """Every metric has a known prefix, a unique name, a sentence, and the suffix of its type."""
    lines = table.declared_metrics(ReverserMetrics)
    assert len({line.name for line in lines}) == len(lines)
    for line in lines:
        assert re.match(r"(gitopsreverser|windlass_mirror|windlass)_[a-z_]+$", line.name)
        assert line.name.endswith("_total") == (line.kind is CounterSeries)
        assert line.help.endswith(".")
        assert not {"name", "namespace", "object"} & set(line.labels)


def test_every_line_can_be_recorded(live: ReverserMetrics) -> None:
    """Each declared metric is exposed once something was recorded."""
    for line in table.declared_metrics(ReverserMetrics):
        series, labels = live.built(line), tuple(f"v-{label}" for label in line.labels)
        if isinstance(series, CounterSeries):
            series.inc(*labels)
        elif isinstance(series, GaugeSeries):
            series.set(2, *labels)
        else:
            assert isinstance(series, HistogramSeries)
            series.observe(0.2, *labels)
    text = exposed(live)
    for line in table.declared_metrics(ReverserMetrics):
        suffix = "_count" if line.kind is HistogramSeries else ""
        assert re.search(rf"^{line.name}{suffix}(\{{[^}}]*\}})? [12]\.0$", text, re.MULTILINE)
    assert "_created" not in text


def test_attributes_are_the_table(live: ReverserMetrics) -> None:
    """An instance has the live metric, the class its declaration."""
    live.skips.inc("Noise")
    live.skips.inc("Noise", amount=2)
    live.queue_depth.inc("rules")
    live.queue_depth.dec("rules")
    assert ReverserMetrics.skips.labels == ("reason",)
    assert 'windlass_mirror_skips_total{reason="Noise"} 3.0' in exposed(live)
    assert 'windlass_queue_depth{controller="rules"} 0.0' in exposed(live)


def test_children_are_kept(live: ReverserMetrics) -> None:
    """The same labels give the same child without a call of the library."""
    assert live.commits.child(("user",)) is live.commits.child(("user",))


def test_wrong_number_of_labels_is_refused(live: ReverserMetrics) -> None:
    """A forgotten label is an error at the call, not a strange series."""
    with pytest.raises(ValueError, match="labels are"):
        live.reconciles.inc("rules")


def test_a_deleted_destination_leaves_no_series(live: ReverserMetrics) -> None:
    """Forgetting a destination removes its series and no other."""
    live.sync_complete.set(1, "team", "a")
    live.sync_complete.set(1, "team", "b")
    live.remote_reachable.set(1, "team", "a")
    live.commits.inc("user")
    live.forget_destination("team", "a")
    live.forget_destination("team", "never-seen")
    text = exposed(live)
    assert 'destination_name="a"' not in text
    assert 'destination_name="b"' in text
    assert 'author_kind="user"' in text
    live.sync_complete.set(0, "team", "a")
    assert 'sync_complete{destination_name="a",destination_namespace="team"} 0.0' in exposed(live)


def test_two_processes_do_not_share(live: ReverserMetrics) -> None:
    """Each registry has its own values."""
    other = ReverserMetrics(CollectorRegistry())
    live.rebase_retries.inc()
    assert "gitopsreverser_rebase_retries_total 0.0" in exposed(other)
