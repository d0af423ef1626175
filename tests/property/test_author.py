"""For any user name the author is one clean line."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.reverser.planned_change import planned_change
from windlass.objects.names import GVR, Identity
from windlass.reverser.attribution import author
from windlass.reverser.publish import commit_message

ANY = st.one_of(
    st.text(max_size=300),
    st.text(st.sampled_from("ab<>\n\r\t\0 .,:;\"'\\\u202e\u2028\u0085@-X"), max_size=40),
)


def clean(text: str) -> bool:
    """Whether a commit header can contain `text` unchanged."""
    hidden = any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in text)
    return bool(text) and not hidden and "<" not in text and ">" not in text


@pytest.mark.scenario("A66")
@given(user=ANY, email=ANY, name=ANY)
@settings(max_examples=150, deadline=None)
def test_an_author_always_fits_into_a_header(user: str, email: str, name: str) -> None:
    """Name and e-mail are clean, short, never empty, and cleaning again changes nothing."""
    found = author.commit_author(author.Actor(user, email, name))
    for text in (found.name, found.email):
        assert clean(text)
        assert len(text.encode()) <= 128
    assert author.sanitize_name(found.name) == found.name
    assert found.email.count("@") >= 1
    assert " " not in found.email


@pytest.mark.scenario("A66")
@given(user=ANY, name=ANY, count=st.integers(min_value=1, max_value=3))
@settings(max_examples=150, deadline=None)
def test_no_text_can_add_a_trailer(user: str, name: str, count: int) -> None:
    """The last paragraph of a message holds exactly our seven trailers."""
    identity = Identity(GVR("", "v1", "things"), "", name)
    changes = [planned_change("CREATE", identity, "base/v1/things/x.yaml")] * count
    trailers = commit_message.Trailers("c", "ns", "ctl", "i", "a/b", user, "exact")
    text = commit_message.render_message(changes, trailers)
    paragraphs = text.rstrip("\n").split("\n\n")
    assert len(paragraphs) == (2 if count == 1 else 3)
    rows = paragraphs[-1].split("\n")
    assert len(rows) == 7
    assert all(row.startswith("X-ConfigButler-") for row in rows)
    assert len(paragraphs[0].splitlines()) == 1
