"""Blocks of addresses, by patterns alone: the oldest API server we support has no rule for them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_FOUR = rf"{_OCTET}(\.{_OCTET}){{3}}/(3[0-2]|[12]?[0-9])"

_WORD = "[0-9a-fA-F]{1,4}"
_SIX_FORMS = (
    f"({_WORD}:){{7}}{_WORD}",
    f"({_WORD}:){{1,7}}:",
    *(f"({_WORD}:){{1,{before}}}(:{_WORD}){{1,{7 - before}}}" for before in range(6, 0, -1)),
    f":(:{_WORD}){{1,7}}",
    "::",
)
_SIX = rf"({'|'.join(_SIX_FORMS)})/(12[0-8]|1[01][0-9]|[1-9]?[0-9])"

Cidr = Annotated[str, Meta(min_length=1, max_length=64, pattern=f"^({_FOUR}|{_SIX})$")]
"""A block of IPv4 or IPv6 addresses such as 203.0.113.0/24."""
