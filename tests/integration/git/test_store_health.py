"""Stores whose files were truncated."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.git import store_health
from windlass.git.errors import StoreCorrupt
from windlass.git.format import objects
from windlass.git.store import PACK_FROM_OBJECTS, Store


def _filled(directory: Path, number: int) -> tuple[Store, list[str]]:
    """A store with so many blobs: few are loose, many are one pack."""
    store = Store.open(directory)
    contents = [f"content {each}\n".encode() * 20 for each in range(number)]
    new = {objects.blob_id(content): ("blob", content) for content in contents}
    store.write_objects(new)
    return store, list(new)


def _cut(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("number", [0, 3, PACK_FROM_OBJECTS])
def test_a_whole_store_is_sound_and_kept(tmp_path: Path, number: int) -> None:
    """Loose objects and packs as we write them pass, and opening again keeps them."""
    store, ids = _filled(tmp_path / "store", number)
    assert store_health.is_store_sound(store.directory)
    again = Store.open(store.directory)
    assert not again.missing(ids)


@pytest.mark.parametrize("suffix", [".pack", ".idx"])
def test_a_store_with_a_truncated_pack_is_discarded(tmp_path: Path, suffix: str) -> None:
    """Opening starts over instead of letting git read the damage."""
    store, ids = _filled(tmp_path / "store", PACK_FROM_OBJECTS)
    (pack,) = (store.directory / "objects" / "pack").glob(f"*{suffix}")
    _cut(pack)
    assert not store_health.is_store_sound(store.directory)
    assert Store.open(store.directory).missing(ids) == ids


def test_damage_inside_a_pack_is_found_by_a_read(tmp_path: Path) -> None:
    """Opening reads no pack, however large; a read verifies what it returns."""
    store, ids = _filled(tmp_path / "store", PACK_FROM_OBJECTS)
    (pack,) = (store.directory / "objects" / "pack").glob("*.pack")
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 0xFF
    pack.unlink()
    pack.write_bytes(content)
    again = Store.open(store.directory)
    assert not again.missing(ids)
    with pytest.raises(StoreCorrupt):
        list(map(again.read_blob, ids))


def test_a_store_with_a_truncated_loose_object_is_discarded(tmp_path: Path) -> None:
    """Also if the file still decompresses, but to content of another id."""
    store, (first, second, third) = _filled(tmp_path / "store", 3)
    files = store.directory / "objects"
    _cut(files / first[:2] / first[2:])
    assert not store_health.is_store_sound(store.directory)
    store, (first, second, third) = _filled(store.directory, 3)
    (files / second[:2] / second[2:]).unlink()
    (files / second[:2] / second[2:]).write_bytes((files / third[:2] / third[2:]).read_bytes())
    assert not store_health.is_store_sound(store.directory)


def test_a_truncated_loose_object_is_reported_at_once(tmp_path: Path) -> None:
    """Reading it ends in StoreCorrupt; it used never to end."""
    store, (first, _) = _filled(tmp_path / "store", 2)
    _cut(store.directory / "objects" / first[:2] / first[2:])
    with pytest.raises(StoreCorrupt, match="truncated or changed"):
        store.read_blob(first)
