"""Reference pages are complete."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from windlass import telemetry
from windlass.api.kinds.registry import KINDS
from windlass.app import settings
from windlass.telemetry import table
from windlass.telemetry.environments import EnvironmentMetrics
from windlass.telemetry.gateways import AgentMetrics, GatewayMetrics
from windlass.telemetry.reverser import ReverserMetrics

_ROOT = Path(__file__).parents[2]


def _declared() -> list[type[table.MetricTable]]:
    """Every table of metrics that the code declares."""
    for module in pkgutil.iter_modules(telemetry.__path__):
        importlib.import_module(f"windlass.telemetry.{module.name}")
    return table.MetricTable.__subclasses__()


def test_every_kind_has_a_page() -> None:
    """A kind without a page is not usable."""
    pages = {page.stem for page in (_ROOT / "docs/reference").glob("*.md")}
    assert {kind.name.lower() for kind in KINDS} <= {page.lower() for page in pages}


def test_every_setting_is_documented() -> None:
    """The settings page holds the generated table."""
    assert settings.reference_table() in (_ROOT / "docs/reference/settings.md").read_text()


def test_every_metric_is_documented() -> None:
    """The metrics page names every declared metric."""
    page = (_ROOT / "docs/reference/metrics.md").read_text()
    tables = (ReverserMetrics, GatewayMetrics, AgentMetrics, EnvironmentMetrics)
    lines = [line for kind in tables for line in table.declared_metrics(kind)]
    missing = [line.name for line in lines if f"`{line.name}`" not in page]
    assert not missing
    assert {kind.__name__ for kind in tables} == {kind.__name__ for kind in _declared()}
