"""Tree edits: the result differs exactly by the edits, and git agrees."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.git.http_server import git
from tests.support.strategies.batched import rows
from windlass.git.errors import PathOccupied
from windlass.git.format import objects, pack
from windlass.git.store import PACK_FROM_OBJECTS, Store
from windlass.git.trees import Directory, TreeEditor, edit_tree

NAMES = ("a", "b", "a.b", "a0", "ab", "ü")
FILE_CONTENTS = ((1, 2, 3), NAMES, NAMES, NAMES, range(6))
CONTENTS = st.tuples(*[st.binary(max_size=6)] * 3)


def _files(drawn: list[tuple[Any, ...]], contents: tuple[bytes, ...]) -> dict[str, bytes]:
    """A tree cannot hold a file and a directory of one name."""
    tree_found = {"/".join(names[:depth]): contents[number % 3] for depth, *names, number in drawn}
    return {
        path: content
        for path, content in tree_found.items()
        if not any(other.startswith(f"{path}/") for other in tree_found)
    }


def _edits(drawn: list[tuple[Any, ...]], contents: tuple[bytes, ...]) -> dict[str, bytes | None]:
    return {
        "/".join(names[:depth]): contents[number] if number < 3 else None
        for depth, *names, number in drawn
    }


FILES = st.builds(_files, rows(*FILE_CONTENTS, max_size=10), CONTENTS)
EDITS = st.builds(_edits, rows(*FILE_CONTENTS, max_size=10), CONTENTS)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """One store for all examples, which do not affect each other."""
    with tempfile.TemporaryDirectory() as directory:
        yield Store.open(Path(directory) / "store")


def _listed(store: Store, root: str, prefix: str = "") -> dict[str, str]:
    tree_found: dict[str, str] = {}
    for name, entry in store.read_tree(root).items():
        path = prefix + name.decode()
        if entry.is_directory:
            below = _listed(store, entry.id, f"{path}/")
            assert below, "an empty directory stayed"
            tree_found |= below
        else:
            tree_found[path] = entry.id
    return tree_found


def _is_possible(files: dict[str, bytes]) -> bool:
    return not any(other.startswith(f"{path}/") for path in files for other in files)


@given(FILES, EDITS)
@settings(max_examples=150, deadline=None)
def test_edit_then_list_is_the_edits(
    store: Store, files: dict[str, bytes], edits: dict[str, bytes | None]
) -> None:
    """The tree is exactly files with edits, or the edit was impossible and is refused."""
    base = edit_tree(store, None, files).tree
    expected = {path: text for path, text in files.items() if path not in edits}
    expected |= {path: text for path, text in edits.items() if text is not None}
    if not _is_possible(expected):
        with pytest.raises(PathOccupied):
            edit_tree(store, base, edits)
        return
    result = edit_tree(store, base, edits)
    assert _listed(store, result.tree) == {
        path: objects.blob_id(text) for path, text in expected.items()
    }
    assert edit_tree(store, None, expected).tree == result.tree


@given(FILES)
@settings(max_examples=50, deadline=None)
def test_the_same_content_again_changes_nothing(store: Store, files: dict[str, bytes]) -> None:
    """Editing to the existing content keeps the tree."""
    base = edit_tree(store, None, files).tree
    assert edit_tree(store, base, files).tree == base
    by_id = {path: store.blob_id(text) for path, text in files.items()}
    assert edit_tree(store, base, by_id).tree == base


@given(FILES, FILES)
@settings(max_examples=50, deadline=None)
def test_a_whole_directory_equals_its_files(
    store: Store, files: dict[str, bytes], below: dict[str, bytes]
) -> None:
    """Its tree replaces the content of the directory; an empty one removes it."""
    base = edit_tree(store, None, files).tree
    put = {"a/b": Directory(edit_tree(store, None, below).tree)}
    kept = {path: text for path, text in files.items() if not f"{path}/".startswith("a/b/")}
    expected = kept | {f"a/b/{path}": text for path, text in below.items()}
    if files.keys() & {"a", "a/b"} or not _is_possible(expected):
        with pytest.raises(PathOccupied):
            edit_tree(store, base, put)
        return
    assert edit_tree(store, base, put).tree == edit_tree(store, None, expected).tree


@given(FILES, st.lists(EDITS, max_size=4))
@settings(max_examples=50, deadline=None)
def test_batched_edits_equal_single_edits(
    store: Store, files: dict[str, bytes], rows: list[dict[str, bytes | None]]
) -> None:
    """Pending objects are read like those in the store."""
    one = other = edit_tree(store, None, files).tree
    editing = TreeEditor(store)
    for edits in rows:
        try:
            one = edit_tree(store, one, edits).tree
        except PathOccupied:
            continue
        other = editing.edit(other, edits)
        assert one == other
    editing.write()
    assert _listed(store, other) == _listed(store, one)


@given(
    st.dictionaries(
        st.binary(min_size=1, max_size=5).map(lambda name: name.replace(b"\0", b"/")),
        st.sampled_from([objects.FILE, objects.DIRECTORY, objects.SYMLINK]),
        max_size=8,
    )
)
def test_trees_round_trip(modes: dict[bytes, int]) -> None:
    """Encoding and parsing are inverse for every set of names."""
    entries = {name: objects.TreeEntry(mode, "1" * 40) for name, mode in modes.items()}
    data = objects.encode_tree(entries)
    assert objects.parse_tree(data) == entries
    assert objects.encode_tree(objects.parse_tree(data)) == data


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=30, unique=True))
@settings(max_examples=15, deadline=None)
def test_packs_are_valid_for_git(contents: list[bytes]) -> None:
    """Git verifies the pack and reads every object from it."""
    built = pack.build({objects.blob_id(data): ("blob", data) for data in contents})
    with tempfile.TemporaryDirectory() as directory:
        store = Store.open(Path(directory) / "s")
        store._write_pack(built)
        index = store.directory / "objects" / "pack" / f"{built.name}.idx"
        git(store.directory, "verify-pack", str(index))
        assert all(store.read_blob(objects.blob_id(data)) == data for data in contents)


def test_large_edits_become_one_pack(tmp_path: Path) -> None:
    """From a hundred new objects on, two files instead of hundreds."""
    store = Store.open(tmp_path / "store")
    edits = {f"d{n % 7}/f{n}": b"%d" % n for n in range(PACK_FROM_OBJECTS * 3)}
    result = edit_tree(store, None, edits)
    assert result.new_objects == len(edits) + 7 + 1
    files = [path for path in (store.directory / "objects").rglob("*") if path.is_file()]
    assert sorted(path.suffix for path in files) == [".idx", ".pack"]
    assert len(git(store.directory, "ls-tree", "-r", result.tree).splitlines()) == len(edits)
    small = edit_tree(store, result.tree, {"d1/f1": b"other"})
    assert small.new_objects == 3
