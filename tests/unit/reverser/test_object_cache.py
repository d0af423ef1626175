"""Index of rules: an object of any content may arrive, and none ends its informer."""

from __future__ import annotations

import pytest

from windlass.objects.names import Key
from windlass.reverser import object_cache

HEAD = b'{"metadata":{"name":"r","generation":1},"spec":'
DEEP = HEAD + b"[" * 1100 + b"]" * 1100 + b"}"
DEEP_BESIDE = HEAD + b'{"destinationRef":{"name":"d"},"x":' + b"[" * 1100 + b"]" * 1100 + b"}}"
NOT_UTF8 = HEAD + b'{"destinationRef":{"name":"\xff"}}}'


@pytest.mark.parametrize("raw", [DEEP, DEEP_BESIDE, NOT_UTF8], ids=["deep", "beside", "not UTF-8"])
def test_a_rule_that_cannot_be_decoded_has_no_destination(raw: bytes) -> None:
    """The reader of the index returns None and does not raise."""
    assert object_cache.read_destination(Key("team", "r"), raw) is None
