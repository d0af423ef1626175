"""Names of namespaces and values of labels, for every identity."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.environments.decide import marks, names
from windlass.environments.decide.names import Identity

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
DNS_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,40}[a-z0-9])?", fullmatch=True)
IDENTITIES = st.builds(Identity, DNS_NAMES, DNS_NAMES, DNS_NAMES)


@pytest.mark.scenario("E12")
@given(IDENTITIES, IDENTITIES)
def test_hashed_names_are_valid_and_never_shared(one: Identity, other: Identity) -> None:
    """Every identity has a name of its own that Kubernetes accepts."""
    for identity in (one, other):
        assert LABEL.fullmatch(names.hashed(identity))
    assert (names.hashed(one) == names.hashed(other)) is (one == other)


@given(IDENTITIES, IDENTITIES)
def test_no_plain_name_is_a_hashed_name(one: Identity, other: Identity) -> None:
    """So nobody can occupy what another is entitled to."""
    assert names.plain(one) != names.hashed(other)


@pytest.mark.scenario("E16")
@given(st.text(max_size=400))
def test_label_values_are_valid(text: str) -> None:
    """Whatever a branch is called, its label is one that Kubernetes accepts."""
    assert VALUE.fullmatch(marks.label_value(text))


@given(st.text(max_size=100), st.text(max_size=100))
def test_label_values_keep_texts_apart(one: str, other: str) -> None:
    """Cleaning never makes one label of two branches."""
    if one != other:
        assert marks.label_value(one) != marks.label_value(other)
