"""Redacts secrets in text that leaves the process.

One `Redactor` per process holds the secret values in use. Text that leaves the
process (log, event, status, commit message, error) goes through `clean`. URL
userinfo and authorization headers are taken out by shape, also when the value is
unknown. Short values are not registered: they would blank ordinary words.

Servers choose much of that text, so the patterns begin with a fixed word and their runs
do not overlap: cleaning takes time linear in the text, whatever it contains. A terminal
would also interpret it: text that is printed there goes through `visible`.
"""

from __future__ import annotations

import base64
import re
from urllib.parse import quote

PLACEHOLDER = "[redacted]"

_SHORTEST = 4
# To the last `@` of the authority: a password may contain one that is not encoded. A user of ssh
# alone proves nothing, and is part of how we name a repository ourselves.
_USERINFO = re.compile(r"(?<!ssh)://[^/\s\"]+@|(?<=ssh)://(?![\w.+~=-]{1,64}@)[^/\s\"]+@")
_HEADER = re.compile(
    r"(authorization[\\\"']{0,4}\s*[:=]\s*[\\\"']{0,4}[\w-]+\s+)[^\s\\\"']+", re.IGNORECASE
)
# Everything that moves a cursor, colors, erases or turns the direction of text around.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


class Redactor:
    """Secret values in use, and their usual encodings (base64, percent encoding)."""

    def __init__(self) -> None:
        # How often each form of a value was added and not discarded.
        self._secrets: dict[str, int] = {}

    def add(self, value: str) -> None:
        for form in _encodings(value):
            self._secrets[form] = self._secrets.get(form, 0) + 1

    def discard(self, value: str) -> None:
        for form in _encodings(value):
            remaining = self._secrets.get(form, 0) - 1
            if remaining > 0:
                self._secrets[form] = remaining
            else:
                self._secrets.pop(form, None)

    def clean(self, text: str, *, limit: int = 4096) -> str:
        """`text` without secrets, cut to `limit` characters."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, PLACEHOLDER)
        text = _USERINFO.sub(f"://{PLACEHOLDER}@", text)
        text = _HEADER.sub(rf"\g<1>{PLACEHOLDER}", text)
        return text if len(text) <= limit else text[: limit - 1] + "…"


def visible(text: str) -> str:
    """`text` with control characters as JSON escapes; tabs and line feeds stay."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _encodings(value: str) -> set[str]:
    if len(value) < _SHORTEST:
        return set()
    raw = value.encode("utf-8", "surrogateescape")
    forms = {value, quote(value, safe=""), base64.b64encode(raw).decode("ascii")}
    return {form for form in forms if len(form) >= _SHORTEST}


process = Redactor()
"""The redactor of this process; credentials are registered here as they are read."""
