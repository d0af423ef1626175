"""Paths are injective, legal on every system, and never leave the base folder."""

from __future__ import annotations

import re
import string
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.strategies.batched import choices
from windlass.objects.names import GVR, Identity
from windlass.reverser.content import file_paths

ALNUM = string.ascii_lowercase + string.digits


def _label(text: str) -> str:
    return text[:22].strip("-") or "a"


def _group(text: str) -> str:
    """Two labels at least, and fourteen at most."""
    return ".".join(map(_label, f"{text}.a".split(".")[:14]))


LABEL = choices(ALNUM + "---", min_size=1, max_size=22).map("".join).map(_label)
DOTTED = ALNUM + "---" + "." * 12
GROUP = st.one_of(
    st.just(""),
    choices(DOTTED, min_size=1, max_size=321).map("".join).map(_group),
    # Fourteen labels of the full length are longer than a segment may be.
    st.text(ALNUM, min_size=308, max_size=308).map(
        lambda text: ".".join(text[at : at + 22] for at in range(0, 308, 22))
    ),
)
# What the API server takes for a path segment name: no `/`, no `%`, not `.` or `..`.
NAME = st.one_of(
    st.text(
        st.characters(exclude_categories=("Cs",), exclude_characters="/%"), min_size=1, max_size=253
    ),
    st.text("aA.:=~é-", min_size=1, max_size=4),
    st.sampled_from(["con", "CON.x", "nul", "lpt9", "com1.y", ".x", "x.", "a~b", "A", " "]),
    st.sampled_from(["é" * 253, "x" * 235, "x" * 236, "x" * 253, ":" * 80]),
).map(lambda name: name if name not in (".", "..") else f"{name}a")
IDENTITY = st.builds(
    Identity,
    gvr=st.builds(GVR, group=GROUP, version=st.sampled_from(["v1", "v1beta1"]), resource=LABEL),
    namespace=st.one_of(st.sampled_from(["", "", "con", "lpt9"]), LABEL),
    name=NAME,
)
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


@pytest.mark.scenario("A40")
@given(identity=IDENTITY)
@settings(max_examples=150, deadline=None)
def test_every_segment_is_legal_everywhere(identity: Identity) -> None:
    """ASCII, short, no reserved name or character, no dot at either end, below the base."""
    path = file_paths.file_path("base/folder", identity)
    below = path.removeprefix("base/folder/")
    assert below == file_paths.object_path(identity)
    for segment in below.split("/"):
        assert re.fullmatch(r"[A-Za-z0-9._=+@,%~-]+", segment)
        assert len(segment.encode()) <= 255
        assert not segment.startswith(".")
        assert not segment.endswith(".")
        assert not RESERVED.fullmatch(segment)


@given(one=IDENTITY, other=IDENTITY)
@settings(max_examples=150, deadline=None)
def test_two_identities_never_share_a_path(one: Identity, other: Identity) -> None:
    """Different names of one type, and different types, have different files."""
    assume(one != other)
    assert file_paths.object_path(one) != file_paths.object_path(other)
    if one.name != other.name:
        namesake = Identity(one.gvr, one.namespace, other.name)
        assert file_paths.object_path(one) != file_paths.object_path(namesake)


def test_no_two_short_names_share_a_path() -> None:
    """The encoding of a character never equals that of another."""
    names = {"".join(chars) for count in (1, 2, 3) for chars in product("aA.:=~é-2E", repeat=count)}
    gvr = GVR("", "v1", "roles")
    found = {file_paths.object_path(Identity(gvr, "ns", name)) for name in names - {".", ".."}}
    assert len(found) == len(names) - 2
