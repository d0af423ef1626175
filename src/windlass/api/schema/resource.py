"""One custom resource as a typed value: API group, metadata, spec, status.

A value that `Resource.decode` returns is valid: it has the declared shape, defaults are filled
in, it passed `validate`, and an older shape of the spec was turned into the canonical one.
Everything else is `Stalled` with the reason of the kind and the path of the field, never its
value. Fields that this version does not know are ignored.

A status is output: it is recomputed on every reconcile, never an input of a decision. So a
status that does not decode counts as empty.

Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, Raw, Struct

from windlass.api.schema.constraint import Constraint, schema_extra
from windlass.api.schema.validation import FieldError, validate, violations
from windlass.base.errors import Stalled
from windlass.base.redaction import process
from windlass.objects.condition import Condition
from windlass.objects.names import Key, Object

VERSION = "v1alpha1"


@dataclass(frozen=True, slots=True)
class Group:
    """An API group of ours."""

    name: str  # as in `apiVersion`
    categories: tuple[str, ...]  # of `kubectl get`, for all of its kinds

    @property
    def api_version(self) -> str:
        return f"{self.name}/{VERSION}"


CONFIGBUTLER = Group("configbutler.ai", ("windlass", "configbutler"))
IGNITION = Group("sync.ignition.io", ("windlass",))
CATALYST = Group("catalyst.catalyst.dev", ("windlass", "catalyst"))


class ObjectMeta(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The metadata that reconcilers read; all other fields are ignored."""

    name: str  # unique in its namespace
    namespace: str = ""  # empty for a cluster-scoped kind
    uid: str = ""  # differs for an object that was deleted and created again
    generation: int = 0  # of the spec, counted by the API server
    resource_version: str = ""  # opaque
    creation_timestamp: datetime | None = None  # by the API server's clock
    deletion_timestamp: datetime | None = None  # None unless it is being deleted
    # Requests of users, such as windlass.dev/requestedAt.
    annotations: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


Count = Annotated[int, Meta(ge=0)]


class ConditionRow(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One condition as the status encodes it; each field is described by its schema."""

    type: Annotated[str, Meta(description="Type of the condition.", min_length=1, max_length=316)]
    status: Annotated[
        Literal["True", "False", "Unknown"], Meta(description="Status of the condition.")
    ]
    reason: Annotated[
        str,
        Meta(
            description="Reason in one word, for programs.",
            min_length=1,
            max_length=1024,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ]
    message: Annotated[str, Meta(description="Reason in a sentence, for people.", max_length=32768)]
    last_transition_time: Annotated[
        str,
        Meta(
            description="When the status last changed.", extra_json_schema={"format": "date-time"}
        ),
    ]
    observed_generation: Annotated[
        Count, Meta(description="The generation of the spec that the condition was set for.")
    ] = 0


Conditions = Annotated[
    tuple[ConditionRow, ...],
    Meta(
        description="Conditions of the object. Ready is always present; Reconciling and "
        "Stalled only while they are true.",
        max_length=32,
        extra=schema_extra(list_type="map", keys=("type",)),
    ),
]
ObservedGeneration = Annotated[
    Count, Meta(description="The generation of the spec that was last reconciled.")
]
HandledRequest = Annotated[
    str,
    Meta(
        description="The value of the annotation windlass.dev/requestedAt (or "
        "reconcile.fluxcd.io/requestedAt) that was last handled.",
        max_length=256,
    ),
]


class ResourceStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The fields that the status of every kind has."""

    observed_generation: ObservedGeneration = 0
    last_handled_reconcile_at: HandledRequest = ""
    conditions: Conditions = ()

    def condition(self, name: str) -> Condition | None:
        """The condition of that type; None if there is none."""
        for row in self.conditions:
            if row.type == name:
                return _condition_value(row)
        return None


def _condition_value(row: ConditionRow) -> Condition:
    return Condition(
        type=row.type,
        status=row.status,
        reason=row.reason,
        message=row.message,
        observed_generation=row.observed_generation,
        last_transition_time=row.last_transition_time,
    )


_MAX_ERRORS = 5

S = TypeVar("S", bound=Struct)


class _Invalid(Exception):
    """The errors of an object, before its kind adds a reason."""

    def __init__(self, problems: list[FieldError]) -> None:
        super().__init__()
        self.text = _error_summary(problems)


class _ResourceEnvelope(Struct, frozen=True):
    """An object whose spec and status are still raw JSON."""

    metadata: ObjectMeta
    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"{}")


class Resource(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all kinds; each kind adds a `spec` and a `status`."""

    group: ClassVar[Group] = CONFIGBUTLER
    invalid_reason: ClassVar[str] = "SpecInvalid"  # condition reason of an invalid object
    NAME_CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = ()  # rules on the metadata

    metadata: ObjectMeta

    @property
    def key(self) -> Key:
        return self.metadata.key

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        """The valid object in `raw` JSON; Stalled with the paths of all wrong fields."""
        try:
            return cls._decode(raw)
        except _Invalid as problem:
            raise Stalled(cls.invalid_reason, problem.text) from problem.__cause__

    @classmethod
    def from_object(cls, obj: Object) -> Self:
        """The valid object in parsed JSON; Stalled as `decode`."""
        try:
            raw = msgspec.json.encode(obj)
        except RecursionError as cause:
            raise Stalled(cls.invalid_reason, str(_field_error(cause, ""))) from cause
        return cls.decode(raw)

    @classmethod
    def canonicalize(cls, spec: Any) -> Any:
        """`spec` in its canonical form; a kind with an older form of some fields overrides it."""
        return spec

    @classmethod
    def _decode(cls, raw: bytes) -> Self:
        envelope = _decode_part(raw, _ResourceEnvelope, "")
        types = _field_types(cls)
        spec = _decode_part(bytes(envelope.spec), types["spec"], "spec")
        problems = [
            *violations(cls.NAME_CONSTRAINTS, envelope.metadata, "metadata"),
            *validate(spec),
        ]
        if problems:
            raise _Invalid(problems)
        status = _decode_or_default(bytes(envelope.status), types["status"])
        parts: dict[str, Any] = {
            "metadata": envelope.metadata,
            "spec": cls.canonicalize(spec),
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
def _field_types(kind: type[Resource]) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode_part(raw: bytes, kind: type[S], root: str) -> S:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise _Invalid([_field_error(cause, root)]) from cause


def _decode_or_default(raw: bytes, kind: type[S]) -> S:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return kind()


def _field_error(cause: Exception, root: str) -> FieldError:
    if not isinstance(cause, msgspec.ValidationError):
        return FieldError(root or "object", "invalid JSON")
    text, _, path = str(cause).partition(" - at `$")
    where = f"{root}{path.rstrip('`')}".removeprefix(".")
    return FieldError(where or "object", _error_text(text))


_DECODER_TEXTS = (
    # An enum error quotes the value, which must not reach a status.
    (r"Invalid enum value .*", r"unsupported value"),
    (r"Object missing required field `(.*)`", r"\1 is required"),
    (r"Expected `str` matching regex '(.*)'", r"must match \1"),
    (r"Expected `(\w+)`, got `(\w+)`", r"must be of type \1, not \2"),
    (r"Expected `\w+` >= (\S+)", r"must be at least \1"),
    (r"Expected `\w+` <= (\S+)", r"must be at most \1"),
    (r"Expected `\w+` of length >= (\d+)", r"must have a length of at least \1"),
    (r"Expected `\w+` of length <= (\d+)", r"must have a length of at most \1"),
)
"""Messages of msgspec, and what users read instead."""


def _error_text(text: str) -> str:
    for pattern, replacement in _DECODER_TEXTS:
        if match := re.fullmatch(pattern, text, re.DOTALL):
            return match.expand(replacement)
    return text


def _error_summary(problems: list[FieldError]) -> str:
    shown = "; ".join(str(problem) for problem in problems[:_MAX_ERRORS])
    more = len(problems) - _MAX_ERRORS
    text = f"{shown}; and {more} more" if more > 0 else shown
    return process.clean(text, limit=1024)
