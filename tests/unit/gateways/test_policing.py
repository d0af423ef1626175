"""Nothing strange passes from a listing to a disk."""

from __future__ import annotations

import pytest

from windlass.gateways.decide import policing
from windlass.gateways.decide.layout import Listed
from windlass.gateways.decide.policing import Caps
from windlass.gateways.decide.refusal import Refused

PLAIN = Listed(0o100644, "1")


@pytest.mark.parametrize(
    ("mode", "what"),
    [(0o120000, "symbolic link"), (0o160000, "submodule"), (0o040000, "unknown mode 40000")],
)
@pytest.mark.scenario("G37")
def test_links_and_submodules_are_refused(mode: int, what: str) -> None:
    """Only plain files are brought over, and the finding names the path and the fix."""
    with pytest.raises(Refused, match=what) as caught:
        policing.check({"a/ok": PLAIN, "a/key": Listed(mode, "1")})
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
    with pytest.raises(Refused) as caught:
        policing.check({path: PLAIN})
    assert (caught.value.reason, caught.value.path) == ("UnsafePath", path)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("path", ["MQTT Engine/tags.json", "ü/é", "n" * 255, "x/.gitignore", "~"])
def test_ordinary_names_pass(path: str) -> None:
    """Blanks, letters of any script and dots are fine."""
    policing.check({path: PLAIN})


@pytest.mark.parametrize(
    ("one", "two"), [("a/View", "a/view"), ("e\u0301", "\u00e9"), ("stra\u00dfe", "STRASSE")]
)
@pytest.mark.scenario("G37")
def test_names_that_fold_to_one_are_refused(one: str, two: str) -> None:
    """A file system without case, or with another Unicode form, would hold one of them."""
    with pytest.raises(Refused, match="only in case or Unicode form"):
        policing.check({one: PLAIN, two: PLAIN})


def test_too_many_files_are_refused() -> None:
    """The cap is on what one gateway gets."""
    files = {f"f{number}": PLAIN for number in range(4)}
    policing.check(files, Caps(max_files=4))
    with pytest.raises(Refused, match="maxFiles is 3") as caught:
        policing.check(files, Caps(max_files=3))
    assert caught.value.reason == "TooLarge"


def test_sizes_are_capped_one_by_one_and_together() -> None:
    """The message names the file to look at."""
    caps = Caps(max_file_bytes=10, max_total_bytes=15)
    policing.check_sizes({"a": 10, "b": 5}, caps)
    with pytest.raises(Refused, match="a has 11 bytes"):
        policing.check_sizes({"a": 11}, caps)
    with pytest.raises(Refused, match=r"16 bytes.*largest is b"):
        policing.check_sizes({"a": 7, "b": 9}, caps)


@pytest.mark.scenario("G37")
def test_a_pointer_to_large_file_storage_is_refused() -> None:
    """The pointer would break the gateway as surely as a missing file."""
    policing.check_content("a", b"version 1")
    with pytest.raises(Refused, match="Git LFS") as caught:
        policing.check_content("a/b.png", b"version https://git-lfs.github.com/spec/v1\noid")
    assert (caught.value.reason, caught.value.path) == ("LfsPointer", "a/b.png")
