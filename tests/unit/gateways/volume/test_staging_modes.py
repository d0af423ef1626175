"""Which permissions synced files get."""

from __future__ import annotations

import os

import pytest

from windlass.base.errors import Stalled
from windlass.gateways.volume import staging


def data_stat(user: int, group: int, mode: int) -> os.stat_result:
    """The stat of a data directory."""
    return os.stat_result((mode, 1, 1, 1, user, group, 0, 0, 0, 0))


def test_the_owner_of_the_volume_writes_without_group_access() -> None:
    """Agent and gateway have the same user."""
    modes = staging.choose_modes(data_stat(2003, 0, 0o40755), user=2003, groups=frozenset())
    assert (modes.file, modes.directory) == (0o644, 0o755)


def test_a_shared_group_may_write() -> None:
    """An fsGroup volume is written so that the group can replace files."""
    modes = staging.choose_modes(data_stat(0, 5000, 0o42775), user=2003, groups=frozenset({5000}))
    assert (modes.file, modes.directory) == (0o664, 0o775)


@pytest.mark.parametrize(("group", "mode"), [(5000, 0o42755), (5000, 0o40775), (1, 0o42775)])
def test_other_ownership_is_refused_with_the_fix(group: int, mode: int) -> None:
    """Files that the gateway cannot replace are not written."""
    with pytest.raises(Stalled, match="fsGroup"):
        staging.choose_modes(data_stat(0, group, mode), user=2003, groups=frozenset({5000}))
