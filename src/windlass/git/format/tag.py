"""An annotated tag as git stores it."""

from __future__ import annotations

from windlass.git.format import refs


def target(data: bytes) -> str:
    """The id of what a tag marks; ValueError where the bytes are no tag."""
    line = data.partition(b"\n")[0].decode("ascii", "replace")
    identifier = line.removeprefix("object ")
    if identifier == line or not refs.is_object_id(identifier):
        raise ValueError("the tag object is malformed")
    return identifier
