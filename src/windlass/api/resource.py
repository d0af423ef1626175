"""One custom resource as a typed value.

A value that `decode` returns is valid: it has the declared shape, the defaults stand in
it, it passed `validate`, and an older shape of the spec was turned into the later one.
Everything else is `Stalled` with the reason of the kind and the path of the field, never
its value. Fields this version does not know are ignored. A status
that does not decode is an empty one, for status is output.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

import msgspec
from msgspec import Raw, Struct

from windlass.api.constraint import Constraint
from windlass.api.group import CONFIGBUTLER, Group
from windlass.api.metadata import Metadata
from windlass.api.validation import FieldError, broken, validate
from windlass.base.errors import Stalled
from windlass.base.redaction import process
from windlass.objects.names import Key, Object

_SHOWN = 5

S = TypeVar("S", bound=Struct)


class _Invalid(Exception):
    """What is wrong with an object, before its kind gives it a reason."""

    def __init__(self, problems: list[FieldError]) -> None:
        super().__init__()
        self.text = _sentence(problems)


class _Envelope(Struct, frozen=True):
    metadata: Metadata
    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"{}")


class Resource(Struct, frozen=True, kw_only=True, rename="camel"):
    """What all kinds share; each kind adds a `spec` and a `status`."""

    group: ClassVar[Group] = CONFIGBUTLER
    invalid_reason: ClassVar[str] = "SpecInvalid"
    NAME_CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = ()

    metadata: Metadata

    @property
    def key(self) -> Key:
        return self.metadata.key

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """The object in `raw` JSON; Stalled says which field is wrong."""
        try:
            return cls._decode(raw)
        except _Invalid as problem:
            raise Stalled(cls.invalid_reason, problem.text) from problem.__cause__

    @classmethod
    def later_shape(cls, spec: Any) -> Any:
        """`spec` without fields that are another way to write something; the same if none."""
        return spec

    @classmethod
    def _decode(cls, raw: bytes) -> Self:
        envelope = _decoded(raw, _Envelope, "")
        types = _parts(cls)
        spec = _decoded(bytes(envelope.spec), types["spec"], "spec")
        problems = [*broken(cls.NAME_CONSTRAINTS, envelope.metadata, "metadata"), *validate(spec)]
        if problems:
            raise _Invalid(problems)
        status = _tolerated(bytes(envelope.status), types["status"])
        parts: dict[str, Any] = {
            "metadata": envelope.metadata,
            "spec": cls.later_shape(spec),
            "status": status,
        }
        return cls(**parts)

    def as_object(self) -> Object:
        """The object as a manifest; fields that have their default value are left out."""
        body: Object = msgspec.json.decode(msgspec.json.encode(self))
        return {"apiVersion": self.group.api_version, "kind": type(self).__name__} | body

    def encode(self) -> bytes:
        """The object as JSON."""
        return msgspec.json.encode(self.as_object())


@cache
def _parts(kind: type[Resource]) -> dict[str, Any]:
    return get_type_hints(kind)


def _decoded(raw: bytes, kind: type[S], root: str) -> S:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise _Invalid([_problem(cause, root)]) from cause


def _tolerated(raw: bytes, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return kind()


def _problem(cause: Exception, root: str) -> FieldError:
    if not isinstance(cause, msgspec.ValidationError):
        return FieldError(root or "object", "is not readable JSON")
    text, _, path = str(cause).partition(" - at `$")
    where = f"{root}{path.rstrip('`')}".removeprefix(".")
    return FieldError(where or "object", _plain(text))


def _plain(text: str) -> str:
    """The sentence of msgspec, without the value it repeats for an unknown enum member."""
    return "is not one of the allowed values" if text.startswith("Invalid enum value") else text


def _sentence(problems: list[FieldError]) -> str:
    shown = "; ".join(str(problem) for problem in problems[:_SHOWN])
    more = len(problems) - _SHOWN
    text = f"{shown}; and {more} more" if more > 0 else shown
    return process.clean(text, limit=1024)
