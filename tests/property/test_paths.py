"""Paths are injective, legal on every system, and never leave the base folder."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from windlass.objects.gvr import GVR
from windlass.objects.identity import Identity
from windlass.reverser.decide import paths

LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
GROUP = st.one_of(st.just(""), st.lists(LABEL, min_size=2, max_size=14).map(".".join))
# What the API server takes for a path segment name: no `/`, no `%`, not `.` or `..`.
NAME = st.one_of(
    st.text(
        st.characters(exclude_categories=("Cs",), exclude_characters="/%"), min_size=1, max_size=253
    ),
    st.sampled_from(["con", "CON.x", "nul", "lpt9", "com1.y", ".x", "x.", "a~b", "A", " "]),
    st.sampled_from(["é" * 253, "x" * 235, "x" * 236, "x" * 253, ":" * 80]),
).filter(lambda name: name not in (".", ".."))
IDENTITY = st.builds(
    Identity,
    gvr=st.builds(GVR, group=GROUP, version=st.sampled_from(["v1", "v1beta1"]), resource=LABEL),
    namespace=st.one_of(st.just(""), LABEL),
    name=NAME,
)
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


@pytest.mark.scenario("A40")
@given(identity=IDENTITY)
@settings(max_examples=150, deadline=None)
def test_every_segment_is_legal_everywhere(identity: Identity) -> None:
    """ASCII, short, no reserved name or character, no dot at either end, below the base."""
    path = paths.file_path("base/folder", identity)
    below = path.removeprefix("base/folder/")
    assert below == paths.object_path(identity)
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
    assert paths.object_path(one) != paths.object_path(other)
    if one.name != other.name:
        namesake = Identity(one.gvr, one.namespace, other.name)
        assert paths.object_path(one) != paths.object_path(namesake)
