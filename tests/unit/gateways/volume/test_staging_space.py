"""How much disk space stays free."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base.errors import Retryable
from windlass.gateways.volume.data_directory import DataDirectory
from windlass.gateways.volume.placement import temporary_path
from windlass.gateways.volume.staging import MEBIBYTE, DiskReserve


def test_the_reserve_is_a_share_of_large_volumes() -> None:
    """Five percent, which is more than the minimum."""
    assert DiskReserve().reserved_bytes(100_000 * MEBIBYTE) == 5_000 * MEBIBYTE


def test_the_reserve_of_small_volumes_is_the_minimum() -> None:
    """A small volume keeps 256 MiB."""
    assert DiskReserve().reserved_bytes(1_000 * MEBIBYTE) == 256 * MEBIBYTE


@pytest.mark.parametrize(
    ("needed", "text"), [(1, "1 byte"), (52_000, "50.8 KiB"), (3 * MEBIBYTE << 10, "3.0 GiB")]
)
def test_small_sizes_are_not_rounded_to_zero(tmp_path: Path, needed: int, text: str) -> None:
    """A small sync is refused with its own size, not with 0.0 MiB."""
    tree = DataDirectory(tmp_path)
    with pytest.raises(Retryable, match=f"{text} needed"):
        DiskReserve(share=1.0).check(tree, "", needed)
    tree.close()


def test_a_temporary_name_has_a_valid_length() -> None:
    """Also beside a file with the longest possible name."""
    name = temporary_path(f"projects/{'ü' * 127}", "00000001-abcdef01-3")
    assert name.startswith("projects/.ü")
    assert name.endswith(".wl-00000001-abcdef01-3")
    assert len(name.rpartition("/")[2].encode()) <= 255
