"""Templates with placeholders and no logic, and the variables they may name.

A placeholder is `{{.Name}}`, `{{.Vars.x}}`, `{{index .Labels "a/b"}}` or a quoted text. There is
no pipe, no call, no condition, and what is inserted is never read as a template again. Text
outside `{{` stays as it is, `}}` there included, because JSON is full of it. In quotes a
backslash stands before a quote or another backslash. Rendering either gives text of at most four
times the input and 64 KiB, or raises TemplateError with the line.

A variable has a value, or None where this gateway has none (no ordinal, no service path): naming
such a one is an error, because text that silently lost a part may still be a valid path. An empty
value is a value.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateVariables:
    """What the templates of one gateway at one commit are rendered with."""

    namespace: str | None = None
    cr_name: str | None = None
    gateway_name: str | None = None
    pod_name: str | None = None
    pod_ordinal: int | None = None
    site_number: str | None = None
    cluster_name: str | None = None
    service_path: str | None = None
    deployment_mode: str | None = None
    tag_provider: str | None = None
    profile: str | None = None
    ref: str | None = None
    commit: str | None = None
    timestamp: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    vars: Mapping[str, str] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """What `.name` stands for; LookupError, with words for the user, where nothing does."""
        attribute = VARIABLE_NAMES.get(name)
        if attribute is None:
            hint = (
                f"`.{name}` needs a key, as in `.{name}.x`"
                if name in MAP_NAMES
                else _AVAILABLE_NAMES
            )
            raise LookupError(f"there is no `.{name}`: {hint}")
        value = getattr(self, attribute)
        if value is None:
            raise LookupError(f"`.{name}` has no value for this gateway")
        return str(value)

    def entry(self, name: str, key: str) -> str:
        """The value of `key` in the map `.name`; LookupError where there is none."""
        attribute = MAP_NAMES.get(name)
        if attribute is None:
            raise LookupError(f"`.{name}` has no keys: only .Labels and .Vars do")
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
"""Names with one value, as a template spells them."""

MAP_NAMES = {"Labels": "labels", "Vars": "vars"}
"""Names that need a key."""

_MAX_SHOWN = 63
_AVAILABLE_NAMES = "known are " + ", ".join((*VARIABLE_NAMES, "Labels.x", "Vars.x"))


def _available_keys(entries: Mapping[str, str]) -> str:
    keys = sorted(entries)[:8]
    return f" (it has {', '.join(keys)})" if keys else " (it is empty)"


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
    """`text` with every hole filled; TemplateError where that cannot be done."""
    left = MAX_GROWTH * _utf8_size(text) + EXTRA_BYTES
    out: list[str] = []
    for piece, at in _render_pieces(text, variables):
        left -= _utf8_size(piece)
        if left < 0:
            raise _template_error(
                text, at, f"the result is over {MAX_GROWTH} times the input and 64 KiB"
            )
        out.append(piece)
    return "".join(out)


def render_bytes(content: bytes, variables: TemplateVariables) -> bytes:
    """`render` for the content of a file, which must be UTF-8 text; BOM and line ends stay."""
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise TemplateError(line, "a NUL byte: this is no text, map it without `template`")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise TemplateError(line, "not UTF-8 text: map it without `template`") from cause
    return content if _OPEN not in text else _encode(render(text, variables))


def reject_template(text: str) -> None:
    """ValueError for a template where none is rendered: it would be taken literally."""
    if _OPEN in text:
        raise ValueError(f"{text[:_MAX_SHOWN]!r} must not contain a template ({_OPEN})")


def _render_pieces(text: str, variables: TemplateVariables) -> Iterator[tuple[str, int]]:
    """The text between holes and what fills them, each with where it comes from."""
    done = 0
    while (at := text.find(_OPEN, done)) >= 0:
        yield text[done:at], at
        hole = _PLACEHOLDER.match(text, at + len(_OPEN))
        if hole is None:
            raise _template_error(text, at, _syntax_problem(text, at))
        try:
            yield _placeholder_value(hole, variables), at
        except LookupError as cause:
            raise _template_error(text, at, str(cause.args[0])) from None
        done = hole.end()
    yield text[done:], done


def _placeholder_value(hole: re.Match[str], variables: TemplateVariables) -> str:
    if hole["literal"] is not None:
        return _ESCAPE.sub(r"\1", hole["literal"])
    if hole["map"] is not None:
        return variables.entry(hole["map"], _ESCAPE.sub(r"\1", hole["key"]))
    if hole["member"] is not None:
        return variables.entry(hole["name"], hole["member"])
    return variables.value(hole["name"])


def _syntax_problem(text: str, at: int) -> str:
    end = text.find("\n", at)
    line = text[at:] if end < 0 else text[at:end]
    if "}}" not in line:
        return '`{{` is never closed by `}}` on its line; a literal one is written `{{"{{"}}`'
    return (
        'between `{{` and `}}` only .Name, .Labels.x, .Vars.x, index .Labels "x" or a text '
        "in quotes may stand"
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
            text, cause.start, "a value put in here is not valid Unicode"
        ) from cause
