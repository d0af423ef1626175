"""The texts that fields are made of: names, branches, folders, durations, people.

Each is a string with bounds, so the API server can estimate the cost of its rules, and
with a message for every way to get it wrong.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.api.constraint import INVISIBLE, Constraint, avoiding, declared, matching
from windlass.base import duration

_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"

NamespaceName = Annotated[str, Meta(min_length=1, max_length=63, pattern=f"^{_LABEL}$")]
"""A namespace that must be given."""

NamespaceOrOwn = Annotated[str, Meta(max_length=63, pattern=f"^({_LABEL})?$")]
"""A namespace; empty means the one of the object that holds the reference."""

NamespaceOrAny = Annotated[str, Meta(min_length=1, max_length=63, pattern=rf"^(\*|{_LABEL})$")]
"""One entry of a grant list."""

ObjectName = Annotated[str, Meta(min_length=1, max_length=253, pattern=rf"^{_LABEL}(\.{_LABEL})*$")]
"""The name of an object, as the API server checks it."""

DataKey = Annotated[str, Meta(min_length=1, max_length=253, pattern="^[A-Za-z0-9._-]+$")]
"""A key in the data of a ConfigMap or Secret."""

_BRANCH_BYTES = 244
_BRANCH_CONSTRAINTS = (
    avoiding(
        rf"[{INVISIBLE}~^:?*\[\\]",
        "a branch name has no spaces, no control characters and none of ~ ^ : ? * [ \\",
    ),
    avoiding("^[-/]", "a branch name does not begin with - or /"),
    avoiding(r"\.\.|@\{|//", "a branch name has no .., no @{ and no //"),
    avoiding(
        r"(^|/)\.|\.lock(/|$)|[./]$",
        "no part of a branch name begins with a dot or ends in .lock, "
        "and the name does not end in / or a dot",
    ),
    avoiding("^(@|HEAD)$", "@ and HEAD are not branches; give the name of the branch itself"),
    Constraint(
        f"size(bytes(self)) <= {_BRANCH_BYTES}",
        f"a branch name has at most {_BRANCH_BYTES} bytes",
        lambda name: len(name.encode("utf-8", "replace")) <= _BRANCH_BYTES,
    ),
)

BranchName = Annotated[
    str, Meta(min_length=1, max_length=_BRANCH_BYTES, extra=declared(*_BRANCH_CONSTRAINTS))
]
"""A branch without `refs/heads/`, by git's own rules for reference names."""

_FOLDER_CONSTRAINTS = (
    avoiding(
        r"(^|/)\.|\.(/|$)",
        "no part of the folder begins or ends with a dot: "
        "such folders hold CI definitions or Git's own data",
    ),
)

FolderPath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=512,
        pattern="^([A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+$",
        extra=declared(*_FOLDER_CONSTRAINTS),
    ),
]
"""A folder inside a repository, never its root."""


def _within_five_minutes(text: str) -> bool:
    try:
        return duration.seconds(text) <= 300
    except ValueError:
        return False


_WINDOW_BOUNDS = Constraint(
    # The first half keeps numbers too large for a duration away from the conversion.
    "self.matches('^([0-9]{1,8}(ms|s|m|h))+$') && duration(self) <= duration('5m')",
    "the window lies between 0s and 5m; write it like 0s, 500ms, 30s or 2m",
    _within_five_minutes,
)

WindowDuration = Annotated[
    str, Meta(max_length=32, pattern=duration.PATTERN, extra=declared(_WINDOW_BOUNDS))
]
"""A length of time from 0s to 5m."""

_PERSON_CONSTRAINTS = (
    avoiding(
        r"[\x00-\x1f\x7f-\x9f<>]", "names and addresses have no control characters, no < and no >"
    ),
    matching(
        r"[^\x00-\x20.,:;<>" + "\"'" + r"\\]",
        "Git drops quotes, dots, commas and spaces at the ends; something else must remain",
    ),
)

PersonText = Annotated[
    str, Meta(min_length=1, max_length=128, extra=declared(*_PERSON_CONSTRAINTS))
]
"""A name or an address that fits into a commit header."""

_RESOURCE_CONSTRAINTS = (
    avoiding(
        "/",
        "write the plural of the type alone, for example deployments and not deployments/status: "
        "a watch never carries subresources",
    ),
)

ResourcePlural = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=63,
        pattern=r"^(\*|[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)$",
        extra=declared(*_RESOURCE_CONSTRAINTS),
    ),
]
"""A plural resource name, or `*`."""

GroupName = Annotated[str, Meta(max_length=253, pattern=rf"^(\*|({_LABEL}(\.{_LABEL})*)?)$")]
"""An API group; the core group is the empty text, `*` is every group."""

VersionName = Annotated[
    str, Meta(min_length=1, max_length=63, pattern=r"^(\*|[a-z]([a-z0-9-]*[a-z0-9])?)$")
]
"""An API version, or `*`."""
