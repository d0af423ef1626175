"""Reads string literals from Python sources, by what they say and not by who holds them.

A text is a string expression as a template: literals as they are, constants of modules with
their values, everything else a hole: `f"{STATE}/{name:03d}"` is `.ignition-sync/{:03d}`. No
name of a module, class, function or variable is part of a text, so moving and renaming them
changes none. Docstrings, annotations, `__all__` and what names a type or an attribute are
left out.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HOLE = "{}"

Function = ast.FunctionDef | ast.AsyncFunctionDef

_TYPE_NAMES = frozenset({"NewType", "ParamSpec", "TypeVar", "cast"})
_ATTRIBUTE_NAMES = frozenset({"__setattr__", "delattr", "getattr", "hasattr", "setattr"})
_MOST_STEPS = 8


@dataclass(frozen=True, slots=True)
class Module:
    """One parsed source file.

    imports:   names that the module imports anywhere, with what they mean in full
    constants: what names are given at the level of the module, the last time
    """

    name: str
    tree: ast.Module
    imports: dict[str, str]
    constants: dict[str, ast.expr]


class Sources:
    """All Python sources below some folders of packages."""

    def __init__(self, folders: Iterable[Path]) -> None:
        files = ((folder, file) for folder in folders for file in sorted(folder.rglob("*.py")))
        self.modules = {module.name: module for module in (_parsed(*pair) for pair in files)}

    @functools.cached_property
    def texts(self) -> frozenset[str]:
        """Every text of every module."""
        return frozenset(text for module in self.modules.values() for text in self.texts_of(module))

    def texts_of(self, module: Module) -> Iterator[str]:
        """Every text of one module."""
        return self._texts(module, module.tree)

    def template(self, module: Module, node: ast.AST, steps: int = 0) -> str | None:
        """A string expression as a template; None for what is none or cannot be known."""
        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.Constant(value=bytes() as raw):
                return raw.decode("latin-1")
            case ast.JoinedStr(values=values):
                return _joined([self._part(module, value) for value in values])
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                sides = [self.template(module, side, steps) for side in (left, right)]
                known = any(side is not None for side in sides)
                parts = [HOLE if side is None else side for side in sides]
                return _joined(parts) if known else None
            case ast.Name() | ast.Attribute() if steps < _MOST_STEPS:
                matches = self.constant(module, node)
                return self.template(*matches, steps + 1) if matches is not None else None
        return None

    def variants(self, module: Module, node: ast.expr) -> Iterator[str]:
        """The templates of a text, one for each value that callers pass for its parameters."""
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        for choice in itertools.product(*(self._values(module, part) for part in parts)):
            yield _joined(choice)

    def constant(self, module: Module, node: ast.AST) -> tuple[Module, ast.expr] | None:
        """The expression that a name was given at the level of some module, with that module."""
        for _ in range(_MOST_STEPS):
            name = _dotted(node)
            if name in module.constants:
                return module, module.constants[name]
            head, _, rest = name.partition(".")
            path = f"{module.imports.get(head, '')}.{rest}".strip(".")
            owner, _, last = path.rpartition(".")
            if not last or owner not in self.modules:
                return None
            module, node = self.modules[owner], ast.Name(last)
        return None

    def _part(self, module: Module, node: ast.AST) -> str:
        """A part of an f-string; what a constant says is put in, other values are holes."""
        if not isinstance(node, ast.FormattedValue):
            return self.template(module, node) or ""
        form = self.template(module, node.format_spec) if node.format_spec else ""
        known = self.template(module, node.value) if not form else None
        return known if known is not None else "{" + (f":{form}" if form else "") + "}"

    def _values(self, module: Module, part: ast.expr) -> list[str]:
        value = part.value if isinstance(part, ast.FormattedValue) else part
        text = self.template(module, value)
        if text is not None:
            return [text]
        given = [self.template(module, each) or HOLE for each in _passed(module, value)]
        return sorted(set(given)) or [HOLE]

    def _texts(self, module: Module, node: ast.AST) -> Iterator[str]:
        text = self.template(module, node) if _has_text(node) else None
        if text is not None:
            yield text
        for part in _operands(node) if text is not None else _parts(node):
            yield from self._texts(module, part)


def calls(module: Module, *names: str) -> Iterator[ast.Call]:
    """Every call in a module of a function whose last name is one of `names`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and _last_name(node.func) in names:
            yield node


def keys_read(module: Module) -> Iterator[ast.expr]:
    """The keys that a module reads from mappings, by brackets or by `get`."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Subscript(slice=key):
                yield key
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
                yield key


def grouped(module: Module) -> Iterator[Sequence[ast.expr]]:
    """Expressions that are together in one mapping, one `Literal` or one constant."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Dict(keys=keys):
                yield [key for key in keys if key is not None]
            case ast.Subscript(value=kind, slice=ast.Tuple(elts=values)) if (
                _last_name(kind) == "Literal"
            ):
                yield values
    for name, value in module.constants.items():
        match value:
            case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values):
                yield values if not name.startswith("__") else []
            case ast.Call(
                args=[ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values)]
            ):
                yield values


def _passed(module: Module, value: ast.expr) -> Iterator[ast.expr]:
    """The values that callers in the same module pass for a parameter."""
    function = _enclosing_function(module, value)
    if function is None or not isinstance(value, ast.Name):
        return
    names = [argument.arg for argument in function.args.args]
    if value.id not in names:
        return
    place = names.index(value.id) - (names[0] in ("self", "cls"))
    for call in calls(module, function.name):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        yield from [given[value.id]] if value.id in given else call.args[place : place + 1]


def _enclosing_function(module: Module, node: ast.AST) -> Function | None:
    """The innermost function around a node."""
    matches = None
    for function in ast.walk(module.tree):
        if isinstance(function, Function) and any(inner is node for inner in ast.walk(function)):
            matches = function
    return matches


def _parsed(folder: Path, file: Path) -> Module:
    path = file.relative_to(folder).with_suffix("")
    name = ".".join(path.parent.parts if path.name == "__init__" else path.parts)
    tree = ast.parse(file.read_text(), file)
    return Module(name, tree, dict(_imports(tree)), _constants(tree))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    matches: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                matches[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                matches[name] = value
    return matches


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Children whose texts are used by more than readers of the source."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Assign(targets=[ast.Name(id=name)]) if name.startswith("__"):
            return
        case ast.Call(func=function, args=values) if _last_name(function) in _TYPE_NAMES:
            yield from values[1:]
            return
        case ast.Call(func=function, args=[first, _, *rest]) if (
            _last_name(function) in _ATTRIBUTE_NAMES
        ):
            yield from (first, *rest)
            return
    for field, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        nodes = [child for child in children if isinstance(child, ast.AST)]
        yield from _literals(nodes) if field in ("annotation", "returns") else nodes


def _literals(annotations: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The `Literal[...]` in annotations; other strings there name types."""
    for annotation in annotations:
        for node in ast.walk(annotation):
            if isinstance(node, ast.Subscript) and _last_name(node.value) == "Literal":
                yield node.slice


def _has_text(node: ast.AST) -> bool:
    """Whether an expression is a text itself, and not only the name of one."""
    return isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)


def _operands(node: ast.AST) -> Iterator[ast.AST]:
    """The expressions in the placeholders of a text."""
    match node:
        case ast.JoinedStr(values=values):
            yield from (value.value for value in values if isinstance(value, ast.FormattedValue))
        case ast.BinOp(left=left, right=right):
            for side in (left, right):
                yield from _operands(side) if _has_text(side) else [side]


def _joined(parts: Sequence[str]) -> str:
    text = "".join(parts)
    while HOLE * 2 in text:
        text = text.replace(HOLE * 2, HOLE)
    return text


def _dotted(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
    return "?"


def _last_name(node: ast.AST) -> str:
    return _dotted(node).rpartition(".")[2]
