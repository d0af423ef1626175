"""Nothing secret is left in cleaned text."""

from __future__ import annotations

import base64

from windlass.base.redaction import Redactor


def test_known_values_and_their_disguises_are_taken_out() -> None:
    """Plain, base64 and percent-encoded forms are all replaced."""
    redactor = Redactor()
    redactor.add("p@ss word")
    hidden = base64.b64encode(b"p@ss word").decode()
    text = redactor.clean(f"a p@ss word b {hidden} c p%40ss%20word")
    assert text == "a [redacted] b [redacted] c [redacted]"


def test_userinfo_is_taken_out_by_shape() -> None:
    """A credential in a URL goes although nobody registered it."""
    assert Redactor().clean("fetch https://tok@host/x") == "fetch https://[redacted]@host/x"


def test_a_value_used_twice_stays_hidden_until_both_are_done() -> None:
    """Registration counts its users."""
    redactor = Redactor()
    redactor.add("hunter22")
    redactor.add("hunter22")
    redactor.discard("hunter22")
    assert "hunter22" not in redactor.clean("hunter22")
    redactor.discard("hunter22")
    assert redactor.clean("hunter22") == "hunter22"


def test_text_is_cut_to_its_limit() -> None:
    """A foreign server cannot fill a status with its answer."""
    assert len(Redactor().clean("x" * 9000, limit=100)) == 100
