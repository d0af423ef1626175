"""What a snapshot allows, and whose a path is."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.objects.names import GVR, Identity, Object
from windlass.reverser.publish import path_ownership
from windlass.reverser.publish.path_ownership import PathEntry

CONFIGMAPS = GVR("", "v1", "configmaps")


def content(name: Any = "a", namespace: Any = "ns", **given: Any) -> Object:
    """A ConfigMap as a file holds it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        **given,
    }


def test_candidates_are_the_files_without_a_live_object() -> None:
    """SNP-2: what is live is never a candidate."""
    assert path_ownership.orphan_candidates(["c", "a", "b"], {"b", "x"}) == ("a", "c")
    assert path_ownership.orphan_candidates([], {"b"}) == ()


def test_empty_answer_is_no_proof() -> None:
    """SNP-4: an empty answer beside existing files needs confirmation, a full one does not."""
    assert path_ownership.needs_confirmation(list_empty=True, candidates=["a"])
    assert not path_ownership.needs_confirmation(list_empty=False, candidates=["a"])
    assert not path_ownership.needs_confirmation(list_empty=True, candidates=[])


def test_hand_written_file_of_the_same_object_is_adopted() -> None:
    """SNP-10: same type, kind, namespace and name, whatever else it says."""
    identity = Identity(CONFIGMAPS, "ns", "a")
    assert path_ownership.holds_identity(content(data={"x": "y"}), identity, "ConfigMap")
    assert not path_ownership.holds_identity(content(kind="Secret"), identity, "ConfigMap")
    assert not path_ownership.holds_identity(content(name="b"), identity, "ConfigMap")
    assert not path_ownership.holds_identity(None, identity, "ConfigMap")


MODES = {
    "base/file.yaml": 0o100644,
    "base/run.sh": 0o100755,
    "base/link.yaml": 0o120000,
    "base/module": 0o160000,
    "base/dir/inner.yaml": 0o100644,
}
DIRECTORIES = path_ownership.all_directories(MODES)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("base/new.yaml", "nothing"),
        ("base/new/deep/a.yaml", "nothing"),
        ("base/file.yaml", "file"),
        ("base/run.sh", "file"),
        ("base/link.yaml", "link"),
        ("base/module", "link"),
        ("base/dir", "directory"),
        ("base", "directory"),
        ("base/file.yaml/a.yaml", "beneath-file"),
        ("base/link.yaml/b/a.yaml", "beneath-file"),
        ("base/module/a.yaml", "beneath-file"),
    ],
)
def test_the_entry_at_a_path(path: str, expected: PathEntry) -> None:
    """SNP-10: the modes of the tree say what is there."""
    assert path_ownership.path_entry(path, MODES, DIRECTORIES) == expected


@pytest.mark.parametrize(
    ("found", "claimed", "same", "expected"),
    [
        ("nothing", False, False, False),
        ("file", False, True, False),
        ("file", False, False, True),
        ("file", True, False, False),
        ("link", False, True, True),
        ("link", True, False, False),
        ("directory", True, True, True),
        ("directory", False, True, True),
        ("beneath-file", True, True, True),
        ("beneath-file", False, False, True),
    ],
)
def test_what_counts_as_occupied(
    found: PathEntry, claimed: bool, same: bool, expected: bool
) -> None:
    """SNP-10: before the claim foreign entries are left, under it they are restored."""
    assert path_ownership.is_occupied(found, claimed=claimed, same_identity=same) is expected
