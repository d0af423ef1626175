"""Parsing of Go versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass_dev.programs import go_toolchain


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.27rc1 linux/arm64", (1, 27)),
        ("go version devel +abc linux/amd64", None),
        ("", None),
    ],
)
def test_reads_go_versions(answer: str, version: tuple[int, int] | None) -> None:
    """Releases and candidates have a version, a development build does not."""
    assert go_toolchain.parse_go_version(answer) == version


def test_reads_the_version_that_a_module_needs() -> None:
    """The go line counts, the godebug line does not."""
    assert go_toolchain.required_version("module x\n\ngo 1.25.0\n\ngodebug default=go1.30\n") == (
        1,
        25,
    )


def test_module_without_go_line_is_refused() -> None:
    """A pinned module always has the Go version it needs."""
    with pytest.raises(ValueError, match="go line"):
        go_toolchain.required_version("module x\n")


@pytest.mark.parametrize(
    ("needed", "expected"), [((1, 21), "go-1.25"), ((1, 26), "go-1.26"), ((1, 27), None)]
)
def test_a_toolchain_that_was_fetched_before_is_used_again(
    tmp_path: Path, needed: tuple[int, int], expected: str | None
) -> None:
    """The oldest that is new enough; work directories and drafts are ignored."""
    for name in ("go-1.25", "go-1.26", "go-work", ".go-draft"):
        (tmp_path / name).mkdir()
    hit = go_toolchain._find_downloaded(tmp_path, needed)
    assert (hit and hit.name) == expected
