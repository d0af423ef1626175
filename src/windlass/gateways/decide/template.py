r"""Text with holes: `{{.Name}}`, `{{.Vars.x}}`, `{{index .Labels "a/b"}}`, `{{"{{"}}`.

There is no logic: no pipe, no call, no condition, and what is put in is never read as a
template again. Text outside `{{` stays as it is, `}}` there included, because JSON is full
of it. In quotes `\"` and `\\` stand for the second character. Rendering either gives text
of at most four times the input and 64 KiB, or raises TemplateError with the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.gateways.decide.variables import Variables

GROWTH = 4
ALLOWANCE = 64 * 1024

_OPEN = "{{"
_SHOWN = 63
_QUOTED = r'"(?P<{}>(?:[^"\\\n]|\\["\\])*+)"'
_HOLE = re.compile(
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


def render(text: str, variables: Variables) -> str:
    """`text` with every hole filled; TemplateError where that cannot be done."""
    left = GROWTH * _size(text) + ALLOWANCE
    out: list[str] = []
    for piece, at in _pieces(text, variables):
        left -= _size(piece)
        if left < 0:
            raise _refused(text, at, f"the result is over {GROWTH} times the input and 64 KiB")
        out.append(piece)
    return "".join(out)


def render_bytes(content: bytes, variables: Variables) -> bytes:
    """`render` for the content of a file, which must be UTF-8 text; BOM and line ends stay."""
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise TemplateError(line, "a NUL byte: this is no text, map it without `template`")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise TemplateError(line, "not UTF-8 text: map it without `template`") from cause
    return content if _OPEN not in text else _encoded(render(text, variables))


def refuse(text: str) -> None:
    """ValueError for a template where none is rendered: it would be taken literally."""
    if _OPEN in text:
        raise ValueError(f"{text[:_SHOWN]!r} must not contain a template ({_OPEN})")


def _pieces(text: str, variables: Variables) -> Iterator[tuple[str, int]]:
    """The text between holes and what fills them, each with where it comes from."""
    done = 0
    while (at := text.find(_OPEN, done)) >= 0:
        yield text[done:at], at
        hole = _HOLE.match(text, at + len(_OPEN))
        if hole is None:
            raise _refused(text, at, _fault(text, at))
        try:
            yield _filling(hole, variables), at
        except LookupError as cause:
            raise _refused(text, at, str(cause.args[0])) from None
        done = hole.end()
    yield text[done:], done


def _filling(hole: re.Match[str], variables: Variables) -> str:
    if hole["literal"] is not None:
        return _ESCAPE.sub(r"\1", hole["literal"])
    if hole["map"] is not None:
        return variables.entry(hole["map"], _ESCAPE.sub(r"\1", hole["key"]))
    if hole["member"] is not None:
        return variables.entry(hole["name"], hole["member"])
    return variables.value(hole["name"])


def _fault(text: str, at: int) -> str:
    end = text.find("\n", at)
    line = text[at:] if end < 0 else text[at:end]
    if "}}" not in line:
        return '`{{` is never closed by `}}` on its line; a literal one is written `{{"{{"}}`'
    return (
        'between `{{` and `}}` only .Name, .Labels.x, .Vars.x, index .Labels "x" or a text '
        "in quotes may stand"
    )


def _refused(text: str, at: int, message: str) -> TemplateError:
    return TemplateError(text.count("\n", 0, at) + 1, message)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as cause:
        raise _refused(text, cause.start, "a value put in here is not valid Unicode") from cause
