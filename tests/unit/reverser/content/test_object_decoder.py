"""Undecodable objects are refused by rule, and still have a name; digests detect changes."""

from __future__ import annotations

import pytest

from windlass.objects.names import Key
from windlass.reverser.content import clean_object, object_decoder

HEAD = b'{"apiVersion":"x/v1","kind":"Thing","metadata":{"name":"n","namespace":"s"},"spec":'


def test_an_object_is_decoded() -> None:
    """Text, the largest and the smallest integers come through as they are."""
    raw = HEAD + b'{"a":18446744073709551615,"b":-9223372036854775808,"c":"\xc3\xa9"}}'
    assert object_decoder.decode_object(raw)["spec"] == {"a": 2**64 - 1, "b": -(2**63), "c": "é"}


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        (b'"\xff"', "UTF-8"),
        (b'"\xed\xa0\x80"', "UTF-8"),
        (b'"\\ud800"', "surrogate"),
        (b"18446744073709551616", "64 bit"),
        (b"-9223372036854775809", "64 bit"),
        (b"1" * 6000, "64 bit|too large"),
        (b"1e999", "too large"),
        (b"[" * 256 + b"]" * 256, "deeper than 256"),
        (b"[" * 2000 + b"]" * 2000, "deeper than 256"),
        (b"nonsense", "invalid JSON"),
    ],
)
def test_what_cannot_be_mirrored_is_refused(spec: bytes, rule: str) -> None:
    """The refusal names the rule, and the name is found all the same."""
    raw = HEAD + spec + b"}"
    with pytest.raises(object_decoder.Undecodable, match=rule):
        object_decoder.decode_object(raw)
    assert object_decoder.scan_name(raw) == Key("s", "n")


def test_256_levels_are_decoded_and_digested() -> None:
    """The limit itself is allowed, and a digest exists for it."""
    raw = b'{"a":' + b"[" * 255 + b"]" * 255 + b"}"
    assert (
        len(clean_object.content_digest(object_decoder.decode_object(raw)))
        == clean_object.DIGEST_BYTES
    )


def test_long_digits_in_text_are_no_integer() -> None:
    """Only numbers are bounded, not texts that look like them."""
    raw = HEAD + b'"' + b"9" * 40 + b'"}'
    assert object_decoder.decode_object(raw)["spec"] == "9" * 40


def test_what_is_no_object_is_refused() -> None:
    """A list or a number has no identity."""
    with pytest.raises(object_decoder.Undecodable, match="not an object"):
        object_decoder.decode_object(b"[]")


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b'{"spec":{"metadata":{"name":"wrong"}},"metadata":{"name":"right"},"x":\xff}', "right"),
        (b'{"metadata":{"labels":{"name":"wrong"},"name":"right"},"x":\xff}', "right"),
        (b'{"metadata":{"a":["name","wrong"],"name":"ri\\"ght"},"x":\xff}', 'ri"ght'),
        (b'{"list":["metadata",{"name":"wrong"}],"metadata":{"name":"right"}', "right"),
    ],
)
def test_only_the_top_metadata_names_an_object(raw: bytes, key: str) -> None:
    """Names elsewhere, also inside metadata, do not count."""
    assert object_decoder.scan_name(raw) == Key("", key)


@pytest.mark.parametrize("raw", [b"", b"{", b'{"metadata":{}}', b'{"metadata":"name"}', b'"'])
def test_a_nameless_object_has_no_key(raw: bytes) -> None:
    """Without a name nothing is made up."""
    assert object_decoder.scan_name(raw) is None


def test_digest_ignores_order_and_sees_changes() -> None:
    """Equal content, equal digest; another value, another digest; another key likewise."""
    one, other = {"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}
    assert clean_object.content_digest(one) == clean_object.content_digest(other)
    assert clean_object.content_digest(one) != clean_object.content_digest({"a": 1, "b": [2, 1]})
    assert clean_object.content_digest(one, key=b"k") != clean_object.content_digest(one)
