"""Reference pages list every field and every role."""

from __future__ import annotations

import pytest

from windlass.api.install import rbac, reference_pages
from windlass.api.kinds.registry import KINDS
from windlass.api.schema.kind import Kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_page_of_a_kind(kind: Kind) -> None:
    """Names, fields, status, columns and sample are on the page."""
    text = reference_pages.kind_page(kind, "kind: Sample\n")
    assert text.startswith(f"# {kind.name}\n")
    for part in ("`spec.", "`status.conditions[].reason`", "kind: Sample", "Columns: "):
        assert part in text
    assert f"`{kind.short_names[0]}`" in text


def test_tables_are_complete() -> None:
    """Every row of a table has as many cells as its head, whatever patterns contain."""
    for kind in KINDS:
        for line in reference_pages.kind_page(kind, "").splitlines():
            if line.startswith("|"):
                assert line.replace("\\|", "").count("|") == 6, line


def test_page_of_the_rights() -> None:
    """Each role is listed with its file and its purpose."""
    text = reference_pages.rbac_page(rbac.documents_by_file())
    for name in ("windlass-reverser-watch-any", "windlass-reverser-watch-secrets"):
        assert f"ClusterRole `{name}`" in text
    assert "Role `windlass-reverser-leader`" in text
    for name in ("windlass-fence", "windlass-fence-marks"):
        assert f"ValidatingAdmissionPolicy `{name}`" in text
