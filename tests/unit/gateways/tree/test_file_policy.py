"""Nothing strange passes from a listing to a disk."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import file_policy
from windlass.gateways.tree.file_policy import Caps
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.git.store import Entry

PLAIN = Entry(0o100644, "1")


@pytest.mark.parametrize(
    ("mode", "what"),
    [(0o120000, "symbolic link"), (0o160000, "submodule"), (0o040000, "unknown file mode 40000")],
)
@pytest.mark.scenario("G37")
def test_links_and_submodules_are_refused(mode: int, what: str) -> None:
    """Only plain files are brought over, and the finding names the path and the fix."""
    with pytest.raises(SyncRefused, match=what) as caught:
        file_policy.check_files({"a/ok": PLAIN, "a/key": Entry(mode, "1")})
    assert (caught.value.reason, caught.value.path) == ("UnsafePath", "a/key")
    assert "excludePatterns" in caught.value.message


@pytest.mark.parametrize(
    "path",
    [
        "a/./b",
        "a/../b",
        "a//b",
        "a/.GIT/b",
        "git~1",
        "a/GIT~1/x",
        "a\tb",
        "a\x7f",
        "a\x85b",
        "a\\b",
        "n" * 256,
        "é" * 128,
        "/".join(["d" * 100] * 11),
        "/".join(["d"] * 41),
        "bad\udcff",
    ],
)
def test_odd_names_are_refused(path: str) -> None:
    """PRO-4: every component is a name that any file system can hold."""
    with pytest.raises(SyncRefused) as caught:
        file_policy.check_files({path: PLAIN})
    assert (caught.value.reason, caught.value.path) == ("UnsafePath", path)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("path", ["MQTT Engine/tags.json", "ü/é", "n" * 255, "x/.gitignore", "~"])
def test_ordinary_names_pass(path: str) -> None:
    """Blanks, letters of any script and dots are fine."""
    file_policy.check_files({path: PLAIN})


@pytest.mark.parametrize(
    ("one", "two"), [("a/View", "a/view"), ("e\u0301", "\u00e9"), ("stra\u00dfe", "STRASSE")]
)
@pytest.mark.scenario("G37")
def test_names_that_fold_to_one_are_refused(one: str, two: str) -> None:
    """A file system without case, or with another Unicode form, would hold one of them."""
    with pytest.raises(SyncRefused, match="only in case or Unicode form"):
        file_policy.check_files({one: PLAIN, two: PLAIN})


def test_too_many_files_are_refused() -> None:
    """The cap is on what one gateway gets."""
    files = {f"f{number}": PLAIN for number in range(4)}
    file_policy.check_files(files, Caps(max_files=4))
    with pytest.raises(SyncRefused, match="maxFiles is 3") as caught:
        file_policy.check_files(files, Caps(max_files=3))
    assert caught.value.reason == "TooLarge"


def test_sizes_are_capped_one_by_one_and_together() -> None:
    """The message names the file to look at."""
    caps = Caps(max_file_bytes=10, max_total_bytes=15)
    file_policy.check_sizes({"a": 10, "b": 5}, caps)
    with pytest.raises(SyncRefused, match="a has 11 bytes"):
        file_policy.check_sizes({"a": 11}, caps)
    with pytest.raises(SyncRefused, match=r"16 bytes.*largest file is b"):
        file_policy.check_sizes({"a": 7, "b": 9}, caps)


@pytest.mark.scenario("G37")
def test_a_pointer_to_large_file_storage_is_refused() -> None:
    """The pointer would break the gateway as surely as a missing file."""
    file_policy.check_content("a", b"version 1")
    with pytest.raises(SyncRefused, match="Git LFS") as caught:
        file_policy.check_content("a/b.png", b"version https://git-lfs.github.com/spec/v1\noid")
    assert (caught.value.reason, caught.value.path) == ("LfsPointer", "a/b.png")
