"""Refs, people, trees, paths, commits, packs and listings as pure values."""

from __future__ import annotations

import hashlib
import zlib
from datetime import UTC, datetime, timedelta, timezone

import pytest

from windlass.git.format import objects, pack, refs
from windlass.git.format.objects import Person, clean_person

BLOB = objects.blob_id(b"x")


@pytest.mark.parametrize("name", ["main", "release/1.2", "a-b_c", "ünï", "a@b", "x" * 244])
def test_ordinary_branches_pass(name: str) -> None:
    """Names that git accepts are accepted."""
    assert refs.branch_ref(name) == f"refs/heads/{name}"


@pytest.mark.parametrize(
    "name",
    ["", "-x", "--x", "/a", "a/", "a.", "a..b", "@{u}", "a@{1}", "a//b", "a b", "a~1", "a^", "a:b",
     "a?", "a*", "a[", "a\\b", "a\nb", "a\x7fb", ".a", "a/.b", "a.lock", "a.lock/b", "@", "HEAD",
     "x" * 245],
)  # fmt: skip
def test_other_branches_are_refused(name: str) -> None:
    """Options, revisions and lock files are not branch names."""
    with pytest.raises(refs.RefRefused):
        refs.check_branch(name)


def test_a_person_cannot_forge_a_header() -> None:
    """Line breaks and brackets are removed; an empty rest becomes a name."""
    person = clean_person("Eve\nauthor Bob <b@b>\x00", "e@x>\r\n")
    assert person == Person("Eveauthor Bob b@b", "e@x")
    assert clean_person(" .<>", "") == Person("unknown", "unknown")
    with pytest.raises(ValueError, match="line breaks"):
        Person("a\nb", "c")


def test_header_keeps_the_instant_in_utc() -> None:
    """A time in another zone is the same second."""
    when = datetime(2024, 1, 2, 3, 4, 5, 999999, tzinfo=timezone(timedelta(hours=2)))
    assert Person("A", "a@x").header(when) == "A <a@x> 1704157445 +0000"


def test_tree_sorts_directories_as_git_does() -> None:
    """`a.b` comes before directory `a`, which sorts as `a/`."""
    entries = {
        b"a": objects.TreeEntry(objects.DIRECTORY, objects.EMPTY_TREE),
        b"a.b": objects.TreeEntry(objects.FILE, BLOB),
        b"a0": objects.TreeEntry(objects.FILE, BLOB),
    }
    data = objects.encode_tree(entries)
    assert list(objects.parse_tree(data)) == [b"a.b", b"a", b"a0"]
    assert data.startswith(b"100644 a.b\0")
    assert b"40000 a\0" in data


@pytest.mark.parametrize(
    "data", [b"100644 a\0short", b"100644", b"x\0" + b"0" * 20, b"9 a\0" + b"0" * 20]
)
def test_a_broken_tree_is_an_error(data: bytes) -> None:
    """Truncated or malformed bytes are never parsed."""
    with pytest.raises(ValueError):  # noqa: PT011
        objects.parse_tree(data)


def test_empty_tree_has_its_known_id() -> None:
    """The constant equals the computed id."""
    assert objects.object_id("tree", b"") == objects.EMPTY_TREE


@pytest.mark.parametrize(
    "path",
    ["", "/a", "a//b", "a/", ".", "a/../b", "a/./b", ".git/x", "a/.GIT/b", "a/git~1", ".git./x",
     "a/.g\u200cit", ".git::$INDEX", "a\0b", "x/" * 200 + "y", "y" * 4097],
)  # fmt: skip
def test_paths_that_leave_or_hit_git_are_refused(path: str) -> None:
    """No edit touches a path that is read as .git or lies outside."""
    with pytest.raises(objects.PathRefused):
        objects.split_path(path)


def test_commit_bytes_have_gits_form() -> None:
    """Headers and message are where git puts them, and are parsed back."""
    when = datetime.fromtimestamp(1700000000, UTC)
    person = Person("A U Thor", "a@example.org")
    data = objects.encode_commit(
        tree=objects.EMPTY_TREE, parents=["1" * 40], author=person, author_time=when,
        committer=person, commit_time=when, message="subject\r\n\r\nbody\n\n",
    )  # fmt: skip
    assert data.decode() == (
        f"tree {objects.EMPTY_TREE}\nparent {'1' * 40}\n"
        "author A U Thor <a@example.org> 1700000000 +0000\n"
        "committer A U Thor <a@example.org> 1700000000 +0000\n\nsubject\n\nbody\n"
    )
    assert objects.commit_header(data) == objects.CommitHeader(
        objects.EMPTY_TREE, ("1" * 40,), 1700000000, "A U Thor"
    )
    assert objects.commit_header(b"tree x\nauthor \x07\xff <b@x> 1 +0000\n\nm").author == "\ufffd"
    assert objects.commit_header(b"tree x\n\nauthor Not Me <a@x>").author == "unknown"


def test_a_signature_is_the_last_header_and_folded() -> None:
    """Lines of the signature are continued by a space; the message stays."""
    signed = objects.signed_commit(b"tree x\ncommitter y\n\nm\n", "-----BEGIN\nabc\n-----END\n")
    assert signed == b"tree x\ncommitter y\ngpgsig -----BEGIN\n abc\n -----END\n\nm\n"


def test_a_message_cannot_end_the_commit_early() -> None:
    """NUL bytes and lone surrogates do not reach the object."""
    when = datetime.fromtimestamp(0, UTC)
    person = Person("A", "a")
    data = objects.encode_commit(
        tree=objects.EMPTY_TREE, parents=[], author=person, author_time=when,
        committer=person, commit_time=when, message="a\0b\udc80",
    )  # fmt: skip
    assert data.endswith(b"\n\nab?\n")


def test_pack_holds_its_objects_and_checksums() -> None:
    """Header, first object and both trailers are correct."""
    data = b"y" * 5000
    built = pack.build({objects.blob_id(data): ("blob", data)})
    assert built.pack[:12] == b"PACK\0\0\0\x02\0\0\0\x01"
    assert built.pack[12] == 0x80 | (3 << 4) | (5000 & 0xF)
    assert zlib.decompressobj().decompress(built.pack[15:]) == data
    for part in (built.pack, built.index):
        assert hashlib.sha1(part[:-20], usedforsecurity=False).digest() == part[-20:]
    assert built.name == f"pack-{built.pack[-20:].hex()}"


def test_a_listing_has_branches_default_and_format() -> None:
    """Only branches are kept; HEAD is the default; long ids mean SHA-256."""
    one = "1" * 40
    text = f"ref: refs/heads/main\tHEAD\n{one}\tHEAD\n{one}\trefs/heads/main\n{one}\trefs/tags/v\n"
    listing = refs.parse_listing(text.encode())
    assert listing == refs.RefListing({"refs/heads/main": one}, "main")
    assert (listing.tip("main"), listing.default_branch, listing.tip("x")) == (one, "main", None)
    assert refs.parse_listing(b"").refs == {}
    long = refs.parse_listing(b"2" * 64 + b"\trefs/heads/main\n")
    assert (long.object_format, long.default_branch) == ("sha256", None)
    with pytest.raises(ValueError, match="malformed"):
        refs.parse_listing(b"garbage\n")
