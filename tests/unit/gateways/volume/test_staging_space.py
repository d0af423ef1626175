"""How much must stay free."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base.errors import Retryable
from windlass.gateways.volume.data_directory import DataDirectory
from windlass.gateways.volume.placement import temporary_path
from windlass.gateways.volume.staging import MEBIBYTE, DiskReserve


def test_the_reserve_is_a_share_of_large_volumes() -> None:
    """Five percent of a large volume is more than the least."""
    assert DiskReserve().reserved_bytes(100_000 * MEBIBYTE) == 5_000 * MEBIBYTE


def test_the_reserve_of_small_volumes_is_the_least() -> None:
    """A small volume keeps 256 MiB."""
    assert DiskReserve().reserved_bytes(1_000 * MEBIBYTE) == 256 * MEBIBYTE


@pytest.mark.parametrize(
    ("wanted", "shown"), [(1, "1 byte"), (52_000, "50.8 KiB"), (3 * MEBIBYTE << 10, "3.0 GiB")]
)
def test_what_is_needed_never_reads_as_nothing(tmp_path: Path, wanted: int, shown: str) -> None:
    """Small syncs are refused with their own size, not with 0.0 MiB."""
    tree = DataDirectory(tmp_path)
    with pytest.raises(Retryable, match=f"{shown} needed"):
        DiskReserve(share=1.0).check(tree, "", wanted)
    tree.close()


def test_a_copy_beside_a_long_name_has_a_name_that_fits() -> None:
    """The longest names still leave room for the mark."""
    name = temporary_path(f"projects/{'ü' * 127}", "00000001-abcdef01-3")
    assert name.startswith("projects/.ü")
    assert name.endswith(".wl-00000001-abcdef01-3")
    assert len(name.rpartition("/")[2].encode()) <= 255
