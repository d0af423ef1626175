"""Which permissions files get on whose volume."""

from __future__ import annotations

import os

import pytest

from windlass.base.errors import Stalled
from windlass.gateways.volume import staging


def root(user: int, group: int, mode: int) -> os.stat_result:
    """The stat of a data directory."""
    return os.stat_result((mode, 1, 1, 1, user, group, 0, 0, 0, 0))


def test_the_owner_of_the_volume_keeps_it_to_itself() -> None:
    """One user for agent and gateway needs no group."""
    found = staging.choose_modes(root(2003, 0, 0o40755), user=2003, groups=frozenset())
    assert (found.file, found.directory) == (0o644, 0o755)


def test_a_shared_group_may_write() -> None:
    """An fsGroup volume is written so that the group can replace files."""
    found = staging.choose_modes(root(0, 5000, 0o42775), user=2003, groups=frozenset({5000}))
    assert (found.file, found.directory) == (0o664, 0o775)


@pytest.mark.parametrize(("group", "mode"), [(5000, 0o42755), (5000, 0o40775), (1, 0o42775)])
def test_anything_else_is_refused_with_the_fix(group: int, mode: int) -> None:
    """Files that the gateway could not replace are not written."""
    with pytest.raises(Stalled, match="fsGroup"):
        staging.choose_modes(root(0, group, mode), user=2003, groups=frozenset({5000}))
