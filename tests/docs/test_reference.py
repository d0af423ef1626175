"""Reference pages are complete."""

from __future__ import annotations

from pathlib import Path

from windlass.api.registry import KINDS
from windlass.app import settings
from windlass.telemetry import metrics

_ROOT = Path(__file__).parents[2]


def test_every_kind_has_a_page() -> None:
    """A kind without a page cannot be used by anybody but its author."""
    pages = {page.stem for page in (_ROOT / "docs/reference").glob("*.md")}
    assert {kind.name.lower() for kind in KINDS} <= {page.lower() for page in pages}


def test_every_setting_is_documented() -> None:
    """The settings page holds the generated table."""
    assert settings.reference() in (_ROOT / "docs/reference/settings.md").read_text()


def test_every_metric_is_documented() -> None:
    """The metrics page names every declared metric."""
    page = (_ROOT / "docs/reference/metrics.md").read_text()
    missing = [line.name for line in metrics.table() if f"`{line.name}`" not in page]
    assert not missing
