"""Field types that are written as text: names, refs, paths, globs, durations, CIDR blocks.

Each is a string with bounds, so that the API server can estimate the cost of its rules, and
with a message for every way to get it wrong.

- Paths and globs are relative, without a way out. No rule here is the last line of defense,
  each is repeated where a path is used; but a mistake is reported when it is made.
- CIDR blocks are checked by patterns alone: the oldest API server we support has no CEL
  function for them.
- `FreeObject` is the one type that is not text: an object with any keys, whose content the API
  server keeps as it is. Nothing in it is pruned, no default is filled in.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from windlass.api.schema.constraint import (
    INVISIBLE_CHARACTERS,
    Constraint,
    cel_string,
    must_match,
    must_not_match,
    schema_extra,
)
from windlass.base import clock

_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"

NamespaceName = Annotated[str, Meta(min_length=1, max_length=63, pattern=f"^{_LABEL}$")]
"""A namespace that must be given."""

NamespaceOrSame = Annotated[str, Meta(max_length=63, pattern=f"^({_LABEL})?$")]
"""A namespace; empty means the one of the object that holds the reference."""

LabelName = Annotated[str, Meta(min_length=1, max_length=63, pattern=f"^{_LABEL}$")]
"""A name that becomes part of the name of an object."""

LabelNameOrFirst = Annotated[str, Meta(max_length=63, pattern=f"^({_LABEL})?$")]
"""Such a name; empty means the first of a list."""

NamespaceOrAny = Annotated[str, Meta(min_length=1, max_length=63, pattern=rf"^(\*|{_LABEL})$")]
"""One entry of a grant list."""

ObjectName = Annotated[str, Meta(min_length=1, max_length=253, pattern=rf"^{_LABEL}(\.{_LABEL})*$")]
"""The name of an object, as the API server checks it."""

DataKey = Annotated[str, Meta(min_length=1, max_length=253, pattern="^[A-Za-z0-9._-]+$")]
"""A key in the data of a ConfigMap or Secret."""

DataKeyOrDefault = Annotated[str, Meta(max_length=253, pattern="^[A-Za-z0-9._-]*$")]
"""A key; empty means the first of the usual names that exists."""

_BRANCH_BYTES = 244
_REF_BYTES = 255


def _ref_constraints(max_bytes: int) -> tuple[Constraint, ...]:
    return (
        must_not_match(
            rf"[{INVISIBLE_CHARACTERS}~^:?*\[\\]",
            "must not contain spaces, control characters or any of ~ ^ : ? * [ \\",
        ),
        must_not_match("^[-/]", "must not begin with - or /"),
        must_not_match(r"\.\.|@\{|//", 'must not contain "..", "@{" or "//"'),
        must_not_match(
            r"(^|/)\.|\.lock(/|$)|[./]$",
            "must not end in / or a dot, and must not have a part that begins with a dot or ends "
            "in .lock",
        ),
        must_not_match("^(@|HEAD)$", "must not be @ or HEAD; specify the name of the branch"),
        Constraint(
            f"size(bytes(self)) <= {max_bytes}",
            f"must be at most {max_bytes} bytes",
            lambda name: len(name.encode("utf-8", "replace")) <= max_bytes,
        ),
    )


BranchName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=_BRANCH_BYTES,
        extra=schema_extra(*_ref_constraints(_BRANCH_BYTES)),
    ),
]
"""A branch without `refs/heads/`, by git's own rules for reference names."""

_REF_RULES = schema_extra(*_ref_constraints(_REF_BYTES))

RefName = Annotated[str, Meta(min_length=1, max_length=_REF_BYTES, extra=_REF_RULES)]
"""A branch, a tag, a full reference name or a full commit id."""

RefOrDefault = Annotated[str, Meta(max_length=_REF_BYTES, extra=_REF_RULES)]
"""A branch; empty means the default, which the field's description names."""

_FOLDER_CONSTRAINTS = (
    must_not_match(
        r"(^|/)\.|\.(/|$)",
        "must not have a part that begins or ends with a dot; such folders hold CI definitions "
        "or Git's own data",
    ),
)

FolderPath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=512,
        pattern="^([A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+$",
        extra=schema_extra(*_FOLDER_CONSTRAINTS),
    ),
]
"""A folder inside a repository, never its root."""


def _is_window(text: str) -> bool:
    try:
        return clock.parse_duration(text) <= 300
    except ValueError:
        return False


_WINDOW_BOUNDS = Constraint(
    # The first half keeps numbers that are too large for a duration out of the conversion.
    "self.matches('^([0-9]{1,8}(ms|s|m|h))+$') && duration(self) <= duration('5m')",
    "must be a duration from 0s to 5m, for example 500ms, 30s or 2m",
    _is_window,
)

WindowDuration = Annotated[
    str, Meta(max_length=32, pattern=clock.DURATION_PATTERN, extra=schema_extra(_WINDOW_BOUNDS))
]
"""A length of time from 0s to 5m."""

_PERSON_CONSTRAINTS = (
    must_not_match(r"[\x00-\x1f\x7f-\x9f<>]", "must not contain control characters, < or >"),
    must_match(
        r"[^\x00-\x20.,:;<>" + "\"'" + r"\\]",
        "must not consist of quotes, dots, commas and spaces only; Git removes them",
    ),
)

PersonText = Annotated[
    str, Meta(min_length=1, max_length=128, extra=schema_extra(*_PERSON_CONSTRAINTS))
]
"""A name or an address that fits into a commit header."""

_RESOURCE_CONSTRAINTS = (
    must_not_match(
        "/",
        "must be the plural of a type, for example deployments; subresources such as "
        "deployments/status cannot be watched",
    ),
)

ResourcePlural = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=63,
        pattern=r"^(\*|[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)$",
        extra=schema_extra(*_RESOURCE_CONSTRAINTS),
    ),
]
"""A plural resource name, or `*`."""

GroupName = Annotated[str, Meta(max_length=253, pattern=rf"^(\*|({_LABEL}(\.{_LABEL})*)?)$")]
"""An API group; the core group is the empty text, `*` is every group."""

VersionName = Annotated[
    str, Meta(min_length=1, max_length=63, pattern=r"^(\*|[a-z]([a-z0-9-]*[a-z0-9])?)$")
]
"""An API version, or `*`."""


_IPV4_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4_BLOCK = rf"{_IPV4_OCTET}(\.{_IPV4_OCTET}){{3}}/(3[0-2]|[12]?[0-9])"

_IPV6_GROUP = "[0-9a-fA-F]{1,4}"
_IPV6_FORMS = (
    f"({_IPV6_GROUP}:){{7}}{_IPV6_GROUP}",
    f"({_IPV6_GROUP}:){{1,7}}:",
    *(
        f"({_IPV6_GROUP}:){{1,{before}}}(:{_IPV6_GROUP}){{1,{7 - before}}}"
        for before in range(6, 0, -1)
    ),
    f":(:{_IPV6_GROUP}){{1,7}}",
    "::",
)
_IPV6_BLOCK = rf"({'|'.join(_IPV6_FORMS)})/(12[0-8]|1[01][0-9]|[1-9]?[0-9])"

Cidr = Annotated[str, Meta(min_length=1, max_length=64, pattern=f"^({_IPV4_BLOCK}|{_IPV6_BLOCK})$")]
"""A block of IPv4 or IPv6 addresses such as 203.0.113.0/24."""


_PATH_RULES = schema_extra(
    must_not_match("^[/~]", "must be relative: it must not begin with / or ~"),
    must_not_match(r"(^|/)\.\.(/|$)", 'must not contain ".."'),
    must_not_match(r"[\x00-\x1f\x7f\\]", "must not contain backslashes or control characters"),
)

TreePath = Annotated[str, Meta(min_length=1, max_length=512, extra=_PATH_RULES)]
"""A file or directory."""

TreePathOrRoot = Annotated[str, Meta(max_length=512, extra=_PATH_RULES)]
"""A file or directory; empty is the root."""

# By pattern and not by rule: in a map of lists of lists rules would exceed the CEL cost limit.
Glob = Annotated[
    str, Meta(min_length=1, max_length=256, pattern=r"^[^!\x00-\x1f\x7f][^\x00-\x1f\x7f]*$")
]
"""A pattern of paths; there is no negation."""

GlobOrMapped = Annotated[
    str, Meta(max_length=256, pattern=r"^([^!\x00-\x1f\x7f][^\x00-\x1f\x7f]*)?$")
]
"""Such a pattern; empty means the mapped file itself."""


_DURATION_PATTERN = "^([0-9]{1,6}(ms|s|m|h))+$"
_MAX_DURATION_CHARS = 32


def duration_between(shortest: str, longest: str) -> Meta:
    """The constraints of a duration such as 90s or 1h30m within two bounds."""
    # The first part keeps strings that are not a duration out of the conversion, which would fail.
    cel = (
        f"self.matches({cel_string(_DURATION_PATTERN)}) && duration(self) >= duration('{shortest}')"
        f" && duration(self) <= duration('{longest}')"
    )
    message = f"must be a duration from {shortest} to {longest}, for example 90s or 1h30m"
    constraint = Constraint(cel, message, _within_bounds(shortest, longest))
    return Meta(
        max_length=_MAX_DURATION_CHARS, pattern=_DURATION_PATTERN, extra=schema_extra(constraint)
    )


def _within_bounds(shortest: str, longest: str) -> Callable[[str], bool]:
    low, high = clock.parse_duration(shortest), clock.parse_duration(longest)

    def holds(text: str) -> bool:
        try:
            return low <= clock.parse_duration(text) <= high
        except ValueError:
            return False

    return holds


FreeObject = dict[str, Any]
"""Any keys, any values below them."""
