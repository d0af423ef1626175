"""Our newest writes, until a cache has them."""

from __future__ import annotations

from windlass.runtime.recent import Recent


def test_a_write_counts_until_the_cache_moves() -> None:
    """The cache's next version wins, whatever it is."""
    recent: Recent[str] = Recent()
    recent.note("a", b'{"v": 1}', {"v": 2})
    assert recent.newest("a", b'{"v": 1}') == {"v": 2}
    assert recent.newest("a", b'{"v": 3}') == {"v": 3}
    assert recent.newest("a", b'{"v": 1}') == {"v": 1}


def test_a_deletion_counts_like_a_write() -> None:
    """The cache still has it; we know better."""
    recent: Recent[str] = Recent()
    recent.note("a", b'{"v": 1}', None)
    assert recent.newest("a", b'{"v": 1}') is None
    assert recent.newest("a", b'{"v": 2}') == {"v": 2}


def test_a_creation_counts_before_the_cache_has_anything() -> None:
    """And goes with the first word of the cache."""
    recent: Recent[str] = Recent()
    recent.note("a", None, {"v": 1})
    assert recent.newest("a", None) == {"v": 1}
    recent.forget("a")
    assert recent.newest("a", None) is None
