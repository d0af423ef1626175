"""Templates with placeholders and no logic, and the variables they may name.

A placeholder is `{{.Name}}`, `{{.Vars.x}}`, `{{index .Labels "a/b"}}` or a quoted text. There is
no pipe, no call, no condition, and inserted values are never rendered again. Text outside `{{` is
kept, also a `}}`, because JSON is full of it. In quotes a backslash escapes a quote or another
backslash. Rendering either gives text of at most four times the input and 64 KiB, or raises
`TemplateError` with the line.

A variable is None if this gateway has no value for it (no ordinal, no service path): using it is an
error, because text that silently lost a part may still be a valid path. An empty string is a value.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateVariables:
    """The template variables of one gateway at one commit; None is "no value here"."""

    namespace: str | None = None  # of pod and IgnitionSync
    cr_name: str | None = None  # name of the IgnitionSync
    gateway_name: str | None = None  # with ordinal, if the pod has one
    pod_name: str | None = None  # metadata.name of the pod
    pod_ordinal: int | None = None  # index in the StatefulSet
    site_number: str | None = None  # spec of the IgnitionSync
    cluster_name: str | None = None  # setting of the operator
    service_path: str | None = None  # annotation of the pod
    deployment_mode: str | None = None  # annotation of the pod
    tag_provider: str | None = None  # annotation of the pod, or its default
    profile: str | None = None  # selected profile; None for the convention
    ref: str | None = None  # branch or tag
    commit: str | None = None  # full id
    timestamp: int | None = None  # of the commit, in seconds since the epoch
    labels: Mapping[str, str] = field(default_factory=dict)  # of the pod
    vars: Mapping[str, str] = field(default_factory=dict)  # of the profile

    def value(self, name: str) -> str:
        """The value of `.name`; raises LookupError with a message for users if it has none."""
        if name in MAP_NAMES:
            raise LookupError(f"`.{name}` needs a key, for example `.{name}.x`")
        attribute = VARIABLE_NAMES.get(name)
        if attribute is None:
            raise LookupError(f"unknown variable `.{name}`; {_AVAILABLE_NAMES}")
        value = getattr(self, attribute)
        if value is None:
            raise LookupError(f"`.{name}` has no value for this gateway")
        return str(value)

    def entry(self, name: str, key: str) -> str:
        """The value of `key` in the map `.name`; raises LookupError like `value`."""
        attribute = MAP_NAMES.get(name)
        if attribute is None:
            raise LookupError(f"`.{name}` has no keys; only .Labels and .Vars have keys")
        entries: Mapping[str, str] = getattr(self, attribute)
        if key not in entries:
            raise LookupError(
                f"`.{name}` has no key {key[:_MAX_SHOWN]!r}{_available_keys(entries)}"
            )
        return entries[key]


VARIABLE_NAMES = {
    "Namespace": "namespace",
    "CRName": "cr_name",
    "GatewayName": "gateway_name",
    "PodName": "pod_name",
    "PodOrdinal": "pod_ordinal",
    "SiteNumber": "site_number",
    "ClusterName": "cluster_name",
    "ServicePath": "service_path",
    "DeploymentMode": "deployment_mode",
    "TagProvider": "tag_provider",
    "Profile": "profile",
    "Ref": "ref",
    "Commit": "commit",
    "Timestamp": "timestamp",
}
"""Template names of variables with one value, and their attributes."""

MAP_NAMES = {"Labels": "labels", "Vars": "vars"}
"""Template names of maps, which need a key, and their attributes."""

_MAX_SHOWN = 63
_AVAILABLE_NAMES = f"available: {', '.join((*VARIABLE_NAMES, 'Labels.x', 'Vars.x'))}"


def _available_keys(entries: Mapping[str, str]) -> str:
    keys = sorted(entries)[:8]
    return f"; available: {', '.join(keys)}" if keys else "; it is empty"


MAX_GROWTH = 4
EXTRA_BYTES = 64 * 1024

_OPEN = "{{"
_QUOTED = r'"(?P<{}>(?:[^"\\\n]|\\["\\])*+)"'
_PLACEHOLDER = re.compile(
    r"[ \t]*(?:"
    r"\.(?P<name>[A-Za-z_][A-Za-z0-9_]*+)(?:\.(?P<member>[A-Za-z_][A-Za-z0-9_]*+))?"
    rf"|index[ \t]+\.(?P<map>[A-Za-z_][A-Za-z0-9_]*+)[ \t]+{_QUOTED.format('key')}"
    rf"|{_QUOTED.format('literal')}"
    r")[ \t]*\}\}"
)
_ESCAPE = re.compile(r'\\(["\\])')


class TemplateError(ValueError):
    """The text cannot be rendered; `line` counts from one."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


def render(text: str, variables: TemplateVariables) -> str:
    """`text` with every placeholder replaced; raises `TemplateError` if that fails."""
    bytes_left = MAX_GROWTH * _utf8_size(text) + EXTRA_BYTES
    pieces: list[str] = []
    for piece, at in _render_pieces(text, variables):
        bytes_left -= _utf8_size(piece)
        if bytes_left < 0:
            raise _template_error(
                text, at, f"the result exceeds {MAX_GROWTH} times the size of the input plus 64 KiB"
            )
        pieces.append(piece)
    return "".join(pieces)


def render_bytes(content: bytes, variables: TemplateVariables) -> bytes:
    """The rendered content of a file, which must be UTF-8 text; BOM and line ends are kept."""
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise TemplateError(line, "contains a NUL byte; map it without `template`")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise TemplateError(line, "not UTF-8 text; map it without `template`") from cause
    return content if _OPEN not in text else _encode(render(text, variables))


def reject_template(text: str) -> None:
    """Raise ValueError for a template in a text that is not rendered."""
    if _OPEN in text:
        raise ValueError(f"{text[:_MAX_SHOWN]!r} must not contain a template ({_OPEN})")


def cut_after(text: str, name: str) -> str:
    """`text` up to and including its last placeholder `.name`; empty without one."""
    end, at = 0, text.find(_OPEN)
    while at >= 0 and (placeholder := _PLACEHOLDER.match(text, at + len(_OPEN))) is not None:
        if placeholder["name"] == name:
            end = placeholder.end()
        at = text.find(_OPEN, placeholder.end())
    return text[:end]


def _render_pieces(text: str, variables: TemplateVariables) -> Iterator[tuple[str, int]]:
    """The text between placeholders and their values, each with its offset in `text`."""
    done = 0
    while (at := text.find(_OPEN, done)) >= 0:
        yield text[done:at], at
        placeholder = _PLACEHOLDER.match(text, at + len(_OPEN))
        if placeholder is None:
            raise _template_error(text, at, _syntax_problem(text, at))
        try:
            yield _placeholder_value(placeholder, variables), at
        except LookupError as cause:
            raise _template_error(text, at, str(cause.args[0])) from None
        done = placeholder.end()
    yield text[done:], done


def _placeholder_value(placeholder: re.Match[str], variables: TemplateVariables) -> str:
    if placeholder["literal"] is not None:
        return _ESCAPE.sub(r"\1", placeholder["literal"])
    if placeholder["map"] is not None:
        return variables.entry(placeholder["map"], _ESCAPE.sub(r"\1", placeholder["key"]))
    if placeholder["member"] is not None:
        return variables.entry(placeholder["name"], placeholder["member"])
    return variables.value(placeholder["name"])


def _syntax_problem(text: str, at: int) -> str:
    end = text.find("\n", at)
    line = text[at:] if end < 0 else text[at:end]
    if "}}" not in line:
        return '`{{` without `}}` on the same line; write a literal `{{` as `{{"{{"}}`'
    return (
        "invalid expression between `{{` and `}}`; use .Name, .Labels.x, .Vars.x, "
        'index .Labels "x" or a quoted string'
    )


def _template_error(text: str, at: int, message: str) -> TemplateError:
    return TemplateError(text.count("\n", 0, at) + 1, message)


def _utf8_size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as cause:
        raise _template_error(
            text, cause.start, "a variable used here has a value that is not valid Unicode"
        ) from cause
