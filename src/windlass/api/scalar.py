"""The texts that fields are made of: names, branches, folders, durations, people.

Each is a string with bounds, so the API server can estimate the cost of its rules, and
with a message for every way to get it wrong.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.api.constraint import INVISIBLE, Constraint, avoiding, declared, matching
from windlass.base import clock

_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"

NamespaceName = Annotated[str, Meta(min_length=1, max_length=63, pattern=f"^{_LABEL}$")]
"""A namespace that must be given."""

NamespaceOrOwn = Annotated[str, Meta(max_length=63, pattern=f"^({_LABEL})?$")]
"""A namespace; empty means the one of the object that holds the reference."""

LabelName = Annotated[str, Meta(min_length=1, max_length=63, pattern=f"^{_LABEL}$")]
"""A name that becomes part of the name of an object."""

LabelNameOrNone = Annotated[str, Meta(max_length=63, pattern=f"^({_LABEL})?$")]
"""Such a name; empty means the first there is."""

NamespaceOrAny = Annotated[str, Meta(min_length=1, max_length=63, pattern=rf"^(\*|{_LABEL})$")]
"""One entry of a grant list."""

ObjectName = Annotated[str, Meta(min_length=1, max_length=253, pattern=rf"^{_LABEL}(\.{_LABEL})*$")]
"""The name of an object, as the API server checks it."""

DataKey = Annotated[str, Meta(min_length=1, max_length=253, pattern="^[A-Za-z0-9._-]+$")]
"""A key in the data of a ConfigMap or Secret."""

DataKeyOrUsual = Annotated[str, Meta(max_length=253, pattern="^[A-Za-z0-9._-]*$")]
"""A key; empty means the first of the usual names that exists."""

_BRANCH_BYTES = 244
_REF_BYTES = 255


def _ref_constraints(what: str, most: int) -> tuple[Constraint, ...]:
    return (
        avoiding(
            rf"[{INVISIBLE}~^:?*\[\\]",
            f"{what} has no spaces, no control characters and none of ~ ^ : ? * [ \\",
        ),
        avoiding("^[-/]", f"{what} does not begin with - or /"),
        avoiding(r"\.\.|@\{|//", f"{what} has no .., no @{{ and no //"),
        avoiding(
            r"(^|/)\.|\.lock(/|$)|[./]$",
            f"no part of {what} begins with a dot or ends in .lock, "
            "and the name does not end in / or a dot",
        ),
        avoiding("^(@|HEAD)$", "@ and HEAD are not branches; give the name of the branch itself"),
        Constraint(
            f"size(bytes(self)) <= {most}",
            f"{what} has at most {most} bytes",
            lambda name: len(name.encode("utf-8", "replace")) <= most,
        ),
    )


BranchName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=_BRANCH_BYTES,
        extra=declared(*_ref_constraints("a branch name", _BRANCH_BYTES)),
    ),
]
"""A branch without `refs/heads/`, by git's own rules for reference names."""

_REF_RULES = declared(*_ref_constraints("a ref", _REF_BYTES))

RefName = Annotated[str, Meta(min_length=1, max_length=_REF_BYTES, extra=_REF_RULES)]
"""A branch, a tag, a full reference name or a full commit id."""

RefOrDefault = Annotated[str, Meta(max_length=_REF_BYTES, extra=_REF_RULES)]
"""A branch; empty means the one that is meant without a word."""

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
        return clock.parse_duration(text) <= 300
    except ValueError:
        return False


_WINDOW_BOUNDS = Constraint(
    # The first half keeps numbers too large for a duration away from the conversion.
    "self.matches('^([0-9]{1,8}(ms|s|m|h))+$') && duration(self) <= duration('5m')",
    "the window lies between 0s and 5m; write it like 0s, 500ms, 30s or 2m",
    _within_five_minutes,
)

WindowDuration = Annotated[
    str, Meta(max_length=32, pattern=clock.DURATION_PATTERN, extra=declared(_WINDOW_BOUNDS))
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
