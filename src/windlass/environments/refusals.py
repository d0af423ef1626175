"""What the API server's refusal of an object means.

| Answer | Reason | Then |
|---|---|---|
| 403, exceeded quota | QuotaExceeded | inputs must change |
| 403, violates PodSecurity | PodSecurityDenied | inputs must change |
| 403, maximum usage per Container | LimitAboveMaximum | inputs must change |
| 403, anything else | ApplyForbidden | tried again while the binding is new: it takes a moment |
| 422, but the same object would do as a new one | ImmutableField | inputs must change |
| 422, 400, 413 | ConfigInvalid | inputs must change |
| 500 that speaks of the schema (`decide.schema_fault`) | ConfigInvalid | inputs must change |
| others | ApplyFailed | tried again |
| none, the object is being deleted | Applying | made anew once it is gone |

The server's own text may repeat parts of the object, plain variables among them. So the
messages here name the file, the object, the fields and the rule, and quote nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.environments.decide import phase, readiness, schema_fault, step
from windlass.environments.decide.bundle import Member
from windlass.environments.decide.marking import RECREATE
from windlass.environments.decide.step import Finding
from windlass.kube.errors import ApiError, Forbidden, Invalid

DENIED = "ApplyForbidden"
LEAVING = "Applying"

_BAD_REQUEST = 400
_TOO_LARGE = 413
_PASSING_SECONDS = 1.0
_LEAVING_SECONDS = 5.0
_ORDER = (
    "ConfigInvalid",
    "ImmutableField",
    "QuotaExceeded",
    "PodSecurityDenied",
    "LimitAboveMaximum",
    DENIED,
    "ApplyFailed",
    LEAVING,
)
_NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Refusal:
    """One object that was not applied."""

    reason: str
    message: str


def of(member: Member, error: ApiError) -> Refusal:
    """Why `member` was refused, by the table above."""
    if isinstance(error, Forbidden):
        return _forbidden(member, error)
    if isinstance(error, Invalid):
        return _invalid(member, _fields(error.fields))
    if error.status == _TOO_LARGE:
        return _invalid(member, "it: it is larger than a request may be")
    fault = schema_fault.found(error.message, member.object)
    if fault is not None or error.status == _BAD_REQUEST:
        return _invalid(member, fault or "it: it is not an object that can be read")
    return Refusal(
        "ApplyFailed", f"{_named(member)}: {error.message if error.status == 0 else error.reason}"
    )


def unchangeable(member: Member, fields: Sequence[str]) -> Refusal:
    """That `member` is sound, but cannot become this in place."""
    return Refusal(
        "ImmutableField",
        f"{_named(member)}: {_fields(fields)} cannot be changed in place; delete the object, or "
        f'annotate it with {RECREATE}: "true" to have it deleted and made anew',
    )


def leaving(member: Member) -> Refusal:
    """That `member` can be made only when the old one is gone."""
    return Refusal(LEAVING, f"{_named(member)} is being deleted; it is made anew afterwards")


def finding(refused: Sequence[Refusal], *, is_new: bool) -> Finding:
    """All refusals of a stage as one finding; what must be changed speaks first.

    `is_new` says that the rights to apply were given only a moment ago.
    """
    ranked = sorted(refused, key=lambda one: _ORDER.index(one.reason))
    text = "; ".join(one.message for one in ranked[:_NAMED_AT_MOST])
    if len(ranked) > _NAMED_AT_MOST:
        text += f"; and {len(ranked) - _NAMED_AT_MOST} more"
    reason = ranked[0].reason
    if reason == DENIED and is_new:
        return step.waiting(phase.DEPLOYMENT, "Applying", text, after=_PASSING_SECONDS)
    if reason == LEAVING:
        return step.waiting(phase.DEPLOYMENT, "Applying", text, after=_LEAVING_SECONDS)
    if reason == "ApplyFailed":
        return step.retrying(phase.DEPLOYMENT, reason, text)
    return step.failed(phase.DEPLOYMENT, reason, text)


def _forbidden(member: Member, error: Forbidden) -> Refusal:
    if "exceeded quota" in error.message or "failed quota" in error.message:
        return Refusal(
            "QuotaExceeded",
            f"{_named(member)} does not fit into the quota of the namespace; ask for less or "
            "raise it",
        )
    if "violates PodSecurity" in error.message:
        return Refusal(
            "PodSecurityDenied",
            f"{_named(member)} breaks the Pod Security level of the namespace",
        )
    if readiness.exceeds_limit_range(error.message):
        return Refusal(
            "LimitAboveMaximum",
            f"{_named(member)} exceeds the maximum of the LimitRange; lower the limits of its "
            "containers, or raise spec.resources.limitRange.max of the Project",
        )
    return Refusal(DENIED, f"{_named(member)}: the applier may not write it")


def _invalid(member: Member, what: str) -> Refusal:
    return Refusal("ConfigInvalid", f"{_named(member)}: the API server refuses {what}")


def _fields(names: Sequence[str]) -> str:
    # The server calls the whole object [].
    return ", ".join("the whole object" if name == "[]" else name for name in names) or "a field"


def _named(member: Member) -> str:
    return f"{member.file}, {member}" if member.file else str(member)
