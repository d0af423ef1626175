"""Names of namespaces and values of labels, for every identity."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies.batched import choices, row
from windlass.environments import ownership
from windlass.environments.namespace import naming
from windlass.environments.namespace.naming import EnvironmentIdentity, NamingRules

ALNUM = string.ascii_lowercase + string.digits
RULES = NamingRules()
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
DNS_NAMES = choices(ALNUM + "-" * 4 + "." * 4, min_size=1, max_size=42).map(
    lambda chars: "".join(chars).strip("-.") or "a"
)


def _pair(
    value: tuple[int, ...], one: str, other: str
) -> tuple[EnvironmentIdentity, EnvironmentIdentity]:
    """Two identities out of few names, so that they share some, all, or what they add up to."""
    known = (one, other, one + one)
    return (
        EnvironmentIdentity(known[value[0]], known[value[1]], known[value[2]]),
        EnvironmentIdentity(known[value[3]], known[value[4]], known[value[5]]),
    )


PAIRS = st.builds(_pair, row(*[range(3)] * 6), DNS_NAMES, DNS_NAMES)


@pytest.mark.scenario("E12")
@given(PAIRS)
def test_hashed_names_are_valid_and_never_shared(
    pair: tuple[EnvironmentIdentity, EnvironmentIdentity],
) -> None:
    """Every identity has a name of its own that Kubernetes accepts."""
    one, other = pair
    for identity in (one, other):
        assert LABEL.fullmatch(naming.hashed_name(identity, RULES))
    assert (naming.hashed_name(one, RULES) == naming.hashed_name(other, RULES)) is (one == other)


@given(PAIRS)
def test_no_plain_name_is_a_hashed_name(
    pair: tuple[EnvironmentIdentity, EnvironmentIdentity],
) -> None:
    """So no name can take that of another identity."""
    one, other = pair
    assert naming.plain_name(one, RULES) != naming.hashed_name(other, RULES)


@pytest.mark.scenario("E16")
@given(st.text(max_size=400))
def test_label_values_are_valid(text: str) -> None:
    """For any branch the label is one that Kubernetes accepts."""
    assert VALUE.fullmatch(ownership.label_value(text))


@given(st.text(max_size=100), st.text(max_size=100))
def test_label_values_distinguish_texts(one: str, other: str) -> None:
    """Two branches never have the same label."""
    if one != other:
        assert ownership.label_value(one) != ownership.label_value(other)
