"""One custom resource as a typed value.

A value that `decode` returns is valid: it has the declared shape, the defaults stand in
it, and it passed `validate`. Everything else is `Stalled("SpecInvalid")` with the path of
the field and never its value. Fields this version does not know are ignored. A status
that does not decode is an empty one, for status is output.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

import msgspec
from msgspec import Raw, Struct

from windlass.api.metadata import Metadata
from windlass.api.validation import FieldError, validate
from windlass.base.errors import Stalled
from windlass.base.redaction import process
from windlass.objects.json import Object
from windlass.objects.key import Key

GROUP = "configbutler.ai"
VERSION = "v1alpha1"

_SHOWN = 5

S = TypeVar("S", bound=Struct)


class _Envelope(Struct, frozen=True):
    metadata: Metadata
    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"{}")


class _Head(Struct, frozen=True):
    metadata: Metadata


class Resource(Struct, frozen=True, kw_only=True, rename="camel"):
    """What all kinds share; each kind adds a `spec` and a `status`."""

    api_version: ClassVar[str] = f"{GROUP}/{VERSION}"

    metadata: Metadata

    @property
    def key(self) -> Key:
        return self.metadata.key

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """The object in `raw` JSON; Stalled says which field is wrong."""
        envelope = _decoded(raw, _Envelope, "")
        types = _parts(cls)
        spec = _decoded(bytes(envelope.spec), types["spec"], "spec")
        problems = validate(spec)
        if problems:
            raise _invalid(problems)
        status = _tolerated(bytes(envelope.status), types["status"])
        parts: dict[str, Any] = {"metadata": envelope.metadata, "spec": spec, "status": status}
        return cls(**parts)

    def as_object(self) -> Object:
        """The object as a manifest; fields that have their default value are left out."""
        body: Object = msgspec.json.decode(msgspec.json.encode(self))
        return {"apiVersion": self.api_version, "kind": type(self).__name__} | body

    def encode(self) -> bytes:
        """The object as JSON."""
        return msgspec.json.encode(self.as_object())


def decode_metadata(raw: bytes) -> Metadata:
    """Who an object is, also when its spec is not valid and only that can be reported."""
    return _decoded(raw, _Head, "").metadata


@cache
def _parts(kind: type[Resource]) -> dict[str, Any]:
    return get_type_hints(kind)


def _decoded(raw: bytes, kind: type[S], root: str) -> S:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise _invalid([_problem(cause, root)]) from cause


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


def _invalid(problems: list[FieldError]) -> Stalled:
    shown = "; ".join(str(problem) for problem in problems[:_SHOWN])
    more = len(problems) - _SHOWN
    text = f"{shown}; and {more} more" if more > 0 else shown
    return Stalled("SpecInvalid", process.clean(text, limit=1024))
