"""The check whether enough files can be watched."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base.errors import WindlassError
from windlass_dev.node import requirements


def test_too_few_instances_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is started that would fail."""
    monkeypatch.setattr(requirements, "_available_instances", lambda wanted: 3)
    with pytest.raises(
        WindlassError, match=r"only 3 are available to this user.*max_user_instances"
    ):
        requirements.check_inotify()


def test_the_check_closes_all_instances() -> None:
    """However many the kernel granted."""
    open_now = Path("/proc/self/fd")
    before = sum(1 for _ in open_now.iterdir())
    assert 0 <= requirements._available_instances(3) <= 3
    assert sum(1 for _ in open_now.iterdir()) == before
