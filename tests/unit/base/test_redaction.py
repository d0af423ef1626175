"""Cleaned text contains no secret."""

from __future__ import annotations

import base64
import re

import pytest

from windlass.base.redaction import Redactor


def test_known_values_and_their_encodings_are_redacted() -> None:
    """Plain, base64 and percent-encoded forms are all replaced."""
    redactor = Redactor()
    redactor.add("p@ss word")
    hidden = base64.b64encode(b"p@ss word").decode()
    text = redactor.clean(f"a p@ss word b {hidden} c p%40ss%20word")
    assert text == "a [redacted] b [redacted] c [redacted]"


@pytest.mark.parametrize("userinfo", ["tok", "me:p@ss", "me:it's", "me:a'@b@c", "m%40e:x"])
def test_userinfo_is_redacted_by_its_form(userinfo: str) -> None:
    """A credential in a URL is redacted as a whole although it was not registered."""
    text = Redactor().clean(f"fetch 'https://{userinfo}@host/x@y' failed")
    assert text == "fetch 'https://[redacted]@host/x@y' failed"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("ssh://me:secret@host/x", "ssh://[redacted]@host/x"),
        ("ssh://a@b@host/x", "ssh://a@b@host/x"),
        ("git+ssh://git@host/x", "git+ssh://git@host/x"),
    ],
)
def test_an_ssh_user_is_not_a_secret(written: str, shown: str) -> None:
    """It is part of a repository's name; only a password beside it is redacted."""
    assert Redactor().clean(f"fetch '{written}' failed") == f"fetch '{shown}' failed"


@pytest.mark.parametrize(
    "written",
    [
        "Authorization: Bearer abc.def",
        "authorization:basic YWJj",
        '{"Authorization": "AWS4-HMAC abc"}',
        '{\\"Authorization\\": \\"Bearer abc\\"}',
        "Authorization='Token abc'",
    ],
)
def test_headers_are_redacted_by_their_form(written: str) -> None:
    """However a request is printed, its credentials are not in the text."""
    text = Redactor().clean(written)
    assert "[redacted]" in text
    assert not {"abc", "def", "YWJj"} & set(re.split(r"\W+", text))


@pytest.mark.parametrize("unit", ["a", "a.", "://", "://a", "authorization:", "authorization: "])
def test_hostile_text_is_redacted_in_linear_time(unit: str) -> None:
    """A megabyte from a server is cleaned in milliseconds, not in an hour."""
    text = unit * (1024 * 1024 // len(unit))
    assert len(Redactor().clean(text, limit=100)) == 100


def test_a_value_registered_twice_is_redacted_until_both_are_released() -> None:
    """Registrations are counted."""
    redactor = Redactor()
    redactor.add("hunter22")
    redactor.add("hunter22")
    redactor.discard("hunter22")
    assert "hunter22" not in redactor.clean("hunter22")
    redactor.discard("hunter22")
    assert redactor.clean("hunter22") == "hunter22"


def test_text_is_cut_to_its_limit() -> None:
    """A foreign server cannot fill a status with its response."""
    assert len(Redactor().clean("x" * 9000, limit=100)) == 100
