"""A short name for an error that nobody foresaw.

The same fault at the same place has the same name, in every process and after every
restart, so a condition that shows it stays as it is and leads to the line of the log. The
error's text is not part of it: it may hold anything.
"""

from __future__ import annotations

import hashlib
import traceback

_DIGEST_BYTES = 4
_PLACE_PARTS = 2


def error_id(error: BaseException) -> str:
    """Eight digits for the kind of `error` and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{_file(frame.filename)}:{frame.name}:{frame.lineno}" for frame in frames]
    text = "\n".join((type(error).__qualname__, *places))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).hexdigest()


def _file(path: str) -> str:
    """The end of a path; the rest depends on where we are installed."""
    return "/".join(path.replace("\\", "/").split("/")[-_PLACE_PARTS:])
