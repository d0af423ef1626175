"""Maps the API server's refusal of an object to a reason and a message.

| Answer | Reason | Then |
|---|---|---|
| 403, exceeded quota | QuotaExceeded | inputs must change |
| 403, violates PodSecurity | PodSecurityDenied | inputs must change |
| 403, maximum usage per Container | LimitAboveMaximum | inputs must change |
| 403, anything else | ApplyForbidden | retried while the RoleBinding may not have taken effect |
| 422, but valid as a new object | ImmutableField | inputs must change |
| 422, 400, 413 | ConfigInvalid | inputs must change |
| 500 about the schema (see below) | ConfigInvalid | inputs must change |
| others | ApplyFailed | retried |
| none, the object is being deleted | Applying | recreated once it is gone |

The server's own text may repeat parts of the object, plain variables among them. So the
messages here name the file, the object, the fields and the rule, and quote nothing.

Server-side apply answers an object that does not fit its schema with 500, as if the server had
failed, and with a text that names the field and then quotes its value:

    failed to create typed patch object (ns/web; apps/v1, Kind=Deployment): .spec.replicas:
    expected numeric (int or float), got string
    failed to convert new object (ns/web; ...) to proper version: unable to convert ...

The first names fields, one to a line where there are several, the second none. Only the field
and the rule are taken over.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.api.install.environment_objects import APPLIER_NAME
from windlass.environments import phase, step
from windlass.environments.apply import readiness
from windlass.environments.bundle.bundle import Member
from windlass.environments.bundle.labeling import RECREATE
from windlass.environments.step import StepResult
from windlass.kube.errors import ApiError, Forbidden, Invalid
from windlass.objects.names import JSON, Object

DENIED = "ApplyForbidden"
TERMINATING = "Applying"

_BAD_REQUEST = 400
_TOO_LARGE = 413
# When to reconcile again: RoleBindings take effect soon, terminating objects take longer.
_RIGHTS_REQUEUE_SECONDS = 1.0
_TERMINATING_REQUEUE_SECONDS = 5.0
_ORDER = (
    "ConfigInvalid",
    "ImmutableField",
    "QuotaExceeded",
    "PodSecurityDenied",
    "LimitAboveMaximum",
    DENIED,
    "ApplyFailed",
    TERMINATING,
)
"""Reasons by severity: those that need a change of inputs first."""

_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class ApplyRefusal:
    """Why one object was not applied; `reason` is one of `_ORDER`."""

    reason: str
    message: str


def classify_error(member: Member, error: ApiError, *, trusted: bool = True) -> ApplyRefusal:
    """The refusal of `member` for an error of the API server, by the table above.

    `trusted` is the trust of the Environment, for the remedy.
    """
    if isinstance(error, Forbidden):
        return _forbidden_refusal(member, error, trusted=trusted)
    if isinstance(error, Invalid):
        return _invalid_refusal(member, f"invalid value of {_fields(error.fields)}")
    if error.status == _TOO_LARGE:
        return _invalid_refusal(member, "the object is too large for a request")
    fault = describe_schema_fault(error.message, member.object)
    if fault is not None or error.status == _BAD_REQUEST:
        return _invalid_refusal(member, fault or "invalid object")
    return ApplyRefusal(
        "ApplyFailed", f"{_label(member)}: {error.message if error.status == 0 else error.reason}"
    )


def immutable_refusal(member: Member, fields: Sequence[str]) -> ApplyRefusal:
    """The refusal of a `member` whose `fields` cannot be changed in place."""
    return ApplyRefusal(
        "ImmutableField",
        f"{_label(member)}: {_fields(fields)} cannot be changed in place; delete the object, or "
        f'annotate it with {RECREATE}: "true" to have it deleted and created again',
    )


def terminating_refusal(member: Member, live: Object) -> ApplyRefusal:
    """The refusal of a `member` that can be created only once the `live` object is gone."""
    text = f"{_label(member)} is terminating"
    finalizers = live["metadata"].get("finalizers") or []
    if not finalizers:
        return ApplyRefusal(TERMINATING, f"{text}; it will be created again")
    names = ", ".join(finalizers[:_MAX_NAMED])
    return ApplyRefusal(
        TERMINATING,
        f"{text} and waits for its metadata.finalizers: {names}; it will be created again once "
        "they are removed, by their controllers or by hand",
    )


def stage_failure(refused: Sequence[ApplyRefusal], *, is_new: bool) -> StepResult:
    """All refusals of a stage as one result, the most severe first.

    `is_new` means that the RoleBinding of the applier may not have taken effect yet.
    """
    ranked = sorted(refused, key=lambda refusal: _ORDER.index(refusal.reason))
    text = "; ".join(refusal.message for refusal in ranked[:_MAX_NAMED])
    if len(ranked) > _MAX_NAMED:
        text += f"; and {len(ranked) - _MAX_NAMED} more"
    reason = ranked[0].reason
    if reason == DENIED and is_new:
        return step.waiting(phase.DEPLOYMENT, "Applying", text, after=_RIGHTS_REQUEUE_SECONDS)
    if reason == TERMINATING:
        return step.waiting(phase.DEPLOYMENT, "Applying", text, after=_TERMINATING_REQUEUE_SECONDS)
    if reason == "ApplyFailed":
        return step.retrying(phase.DEPLOYMENT, reason, text)
    return step.failed(phase.DEPLOYMENT, reason, text)


def _forbidden_refusal(member: Member, error: Forbidden, *, trusted: bool) -> ApplyRefusal:
    """The refusal for a 403; the API server gives its cause in the text only."""
    if "exceeded quota" in error.message or "failed quota" in error.message:
        return ApplyRefusal(
            "QuotaExceeded",
            f"{_label(member)} exceeds the quota of the namespace; lower its requests, or raise "
            "spec.quota up to spec.resources.maxQuota of the Project",
        )
    if "violates PodSecurity" in error.message:
        return ApplyRefusal(
            "PodSecurityDenied",
            f"{_label(member)} violates the Pod Security level of the namespace; fix its "
            f"securityContext{_level_remedy(error.message, trusted=trusted)}",
        )
    if readiness.exceeds_limit_range(error.message):
        return ApplyRefusal(
            "LimitAboveMaximum",
            f"{_label(member)} exceeds the maximum of the LimitRange; lower the limits of its "
            "containers, or raise spec.resources.limitRange.max of the Project",
        )
    return ApplyRefusal(
        DENIED,
        f"{_label(member)}: ServiceAccount {APPLIER_NAME} is not allowed to write it; apply "
        "deploy/rbac again",
    )


def _level_remedy(text: str, *, trusted: bool) -> str:
    """The remedy beside a fix of the pod; none if the level is the lowest already."""
    if 'PodSecurity "baseline' in text:
        return ""
    return f", {readiness.baseline_remedy(trusted=trusted)}"


def _invalid_refusal(member: Member, what: str) -> ApplyRefusal:
    return ApplyRefusal("ConfigInvalid", f"{_label(member)}: rejected by the API server: {what}")


def _fields(names: Sequence[str]) -> str:
    # The API server writes [] for the whole object.
    return ", ".join("the whole object" if name == "[]" else name for name in names) or "a field"


def _label(member: Member) -> str:
    return f"{member.file}, {member}" if member.file else str(member)


_BEGINNINGS = ("failed to create typed patch object", "failed to convert new object")
_HEAD = re.compile(r"failed to create typed patch object \([^)]*\):(?: errors:)?")
_FAULT = re.compile(r"[ \t]*(?P<path>\.\S.*?): (?P<rule>.*)")
_RULES = (
    ("field not declared in schema", "unknown field"),
    ("expected numeric", "must be a number"),
    ("expected string", "must be a string; quote it"),
    ("expected boolean", "must be true or false"),
    ("expected list", "must be a list"),
    ("expected map", "must be a map"),
    ("duplicate entries for key", "two entries have the same key"),
)
_WRONG_FORM = "has the wrong type"
_MAX_CHARS = 253


def describe_schema_fault(message: str, obj: Object) -> str | None:
    """Fields and rules that `obj` violates by `message`; None if it is not about the schema."""
    if not message.startswith(_BEGINNINGS):
        return None
    faults = list(_named_faults(message))
    if faults:
        return "; ".join(faults[:_MAX_NAMED])
    fractions = ", ".join(list(_fractions(obj, ""))[:3])
    if "cannot convert float64" in message and fractions:
        return f"{fractions}: must be an integer"
    if "quantities must match" in message:
        return "a value is not a valid quantity; use for example 500m, 2 or 1Gi"
    return "a value has the wrong type for its field"


def _named_faults(message: str) -> Iterator[str]:
    """Each field that a message names, with its rule; the message has one per line."""
    head = _HEAD.match(message)
    for line in message[head.end() :].splitlines() if head is not None else ():
        fault = _FAULT.match(line)
        if fault is not None:
            rule = next(
                (
                    rule_text
                    for server_text, rule_text in _RULES
                    if fault["rule"].startswith(server_text)
                ),
                _WRONG_FORM,
            )
            yield f"{fault['path'].removeprefix('.')[:_MAX_CHARS]}: {rule}"


def _fractions(value: JSON, path: str) -> Iterator[str]:
    """The paths of numbers that are not integers."""
    if isinstance(value, float) and not value.is_integer():
        yield path[:_MAX_CHARS]
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _fractions(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _fractions(item, f"{path}[{index}]")
