"""Paths and patterns that name files of a repository or below a directory.

Relative, without a way out: no rule here is the last line of defence, each is repeated
where a path is used, but a mistake is told when it is made.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.api.constraint import avoiding, declared

_PATH_RULES = declared(
    avoiding("^[/~]", "a path is relative: it begins with neither / nor ~"),
    avoiding(r"(^|/)\.\.(/|$)", "a path has no .. in it"),
    avoiding(r"[\x00-\x1f\x7f\\]", "a path has no backslash and no control characters"),
)

TreePath = Annotated[str, Meta(min_length=1, max_length=512, extra=_PATH_RULES)]
"""A file or directory."""

TreePathOrRoot = Annotated[str, Meta(max_length=512, extra=_PATH_RULES)]
"""A file or directory; empty is the root."""

# By pattern and not by rule: inside a map of lists of lists the rules of a spec would
# cost more than the server grants.
Glob = Annotated[
    str, Meta(min_length=1, max_length=256, pattern=r"^[^!\x00-\x1f\x7f][^\x00-\x1f\x7f]*$")
]
"""A pattern of paths; there is no negation."""

GlobOrMapped = Annotated[
    str, Meta(max_length=256, pattern=r"^([^!\x00-\x1f\x7f][^\x00-\x1f\x7f]*)?$")
]
"""Such a pattern; empty is the file that is mapped."""
