"""Unsafe files of a commit never reach a gateway."""

from __future__ import annotations

import pytest

from windlass.gateways.tree import file_policy
from windlass.gateways.tree.file_policy import Caps
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.git.store import Entry

PLAIN = Entry(0o100644, "1")


@pytest.mark.parametrize(
    ("mode", "description"),
    [(0o120000, "symbolic link"), (0o160000, "submodule"), (0o040000, "unknown file mode 40000")],
)
@pytest.mark.scenario("G37")
def test_links_and_submodules_are_refused(mode: int, description: str) -> None:
    """Only regular files are synced; the error names the path and the fix."""
    with pytest.raises(SyncRefused, match=description) as caught:
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
def test_unsafe_names_are_refused(path: str) -> None:
    """PRO-4: every component is a name that any file system can store."""
    with pytest.raises(SyncRefused) as caught:
        file_policy.check_files({path: PLAIN})
    assert (caught.value.reason, caught.value.path) == ("UnsafePath", path)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("path", ["MQTT Engine/tags.json", "ü/é", "n" * 255, "x/.gitignore", "~"])
def test_ordinary_names_are_accepted(path: str) -> None:
    """Blanks, letters of any script and dots are allowed."""
    file_policy.check_files({path: PLAIN})


@pytest.mark.parametrize(
    ("first", "second"), [("a/View", "a/view"), ("e\u0301", "\u00e9"), ("stra\u00dfe", "STRASSE")]
)
@pytest.mark.scenario("G37")
def test_names_that_fold_to_the_same_name_are_refused(first: str, second: str) -> None:
    """Some file systems ignore case or Unicode form and would store only one of them."""
    with pytest.raises(SyncRefused, match="only in case or Unicode form"):
        file_policy.check_files({first: PLAIN, second: PLAIN})


def test_too_many_files_are_refused() -> None:
    """The cap applies to the files of one gateway."""
    files = {f"f{number}": PLAIN for number in range(4)}
    file_policy.check_files(files, Caps(max_files=4))
    with pytest.raises(SyncRefused, match="maxFiles is 3") as caught:
        file_policy.check_files(files, Caps(max_files=3))
    assert caught.value.reason == "TooLarge"


def test_file_sizes_and_their_total_are_capped() -> None:
    """The message names the file."""
    caps = Caps(max_file_bytes=10, max_total_bytes=15)
    file_policy.check_sizes({"a": 10, "b": 5}, caps)
    with pytest.raises(SyncRefused, match="a has 11 bytes"):
        file_policy.check_sizes({"a": 11}, caps)
    with pytest.raises(SyncRefused, match=r"16 bytes.*largest file is b"):
        file_policy.check_sizes({"a": 7, "b": 9}, caps)


@pytest.mark.scenario("G37")
def test_a_git_lfs_pointer_is_refused() -> None:
    """A gateway cannot read the pointer in place of the file."""
    file_policy.check_content("a", b"version 1")
    with pytest.raises(SyncRefused, match="Git LFS") as caught:
        file_policy.check_content("a/b.png", b"version https://git-lfs.github.com/spec/v1\noid")
    assert (caught.value.reason, caught.value.path) == ("LfsPointer", "a/b.png")
