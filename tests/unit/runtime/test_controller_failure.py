"""Errors become outcomes."""

from __future__ import annotations

import pytest

from windlass.base.errors import Fatal, Retryable, Stalled, Waiting, WindlassError, error_id
from windlass.base.redaction import process
from windlass.runtime import controller
from windlass.runtime.outcome import Outcome


@pytest.mark.parametrize(
    ("error", "flags"),
    [
        (Waiting("W", "m", after=3), (False, True, 3, False)),
        (Waiting("W", "m", after=0), (False, True, None, True)),
        (Stalled("S", "m"), (True, False, None, False)),
        (Stalled("S", "m", after=9), (True, False, 9, False)),
        (Retryable("R", "m"), (False, True, None, True)),
        (Retryable("R", "m", after=7), (False, True, 7, False)),
        (Retryable("R", "m", after=0), (False, True, None, True)),
        (WindlassError("E", "m"), (False, True, None, True)),
        (ValueError("m"), (False, True, None, True)),
    ],
)
def test_each_error_means_one_thing(error: Exception, flags: tuple[object, ...]) -> None:
    """The table: stalled, reconciling, requeue_after, backoff."""
    outcome = controller.failure_outcome(error)
    observed = (outcome.stalled, outcome.reconciling, outcome.requeue_after, outcome.backoff)
    assert observed == flags
    assert outcome.ready is not None
    assert outcome.ready.status == "False"


def test_the_reason_of_our_errors_is_the_condition_reason() -> None:
    """The reason that is raised is the one users read."""
    outcome = controller.failure_outcome(Stalled("AccessDenied", "grant it in allowedNamespaces"))
    assert outcome.ready is not None
    assert outcome.ready.reason == "AccessDenied"
    assert outcome.ready.message == "grant it in allowedNamespaces"


def test_the_text_of_an_unknown_error_stays_out_of_the_status() -> None:
    """Foreign text may contain a credential, so only its type is reported."""
    outcome = controller.failure_outcome(RuntimeError("password=hunter2"))
    assert outcome.ready is not None
    assert outcome.ready.reason == "InternalError"
    assert "RuntimeError" in outcome.ready.message
    assert "hunter2" not in outcome.ready.message


def test_the_same_fault_has_the_same_id() -> None:
    """The condition stays the same while the fault does, and leads to one entry of the log."""

    def broken(text: str) -> RuntimeError:
        try:
            raise RuntimeError(text)
        except RuntimeError as error:
            return error

    def broken_elsewhere() -> RuntimeError:
        try:
            raise RuntimeError("x")
        except RuntimeError as error:
            return error

    observed = [controller.failure_outcome(broken(text)).ready for text in ("one", "two")]
    assert observed[0] == observed[1]
    assert observed[0] is not None
    assert error_id(broken("three")) in observed[0].message
    assert error_id(broken_elsewhere()) not in observed[0].message


def test_a_secret_in_our_message_is_redacted() -> None:
    """A credential in a message does not reach the status."""
    process.add("s3cr3t-value")
    try:
        outcome: Outcome = controller.failure_outcome(
            Retryable("R", "push with s3cr3t-value failed")
        )
    finally:
        process.discard("s3cr3t-value")
    assert outcome.ready is not None
    assert "s3cr3t" not in outcome.ready.message


def test_of_a_group_the_fatal_error_decides() -> None:
    """An error inside nested groups is found; Fatal first, then ours, then the first."""
    fatal, ours, foreign = Fatal("F", "m"), Waiting("W", "m", after=1), ValueError("x")
    nested = ExceptionGroup("outer", [foreign, ExceptionGroup("inner", [ours, fatal])])
    assert controller.root_cause(nested) is fatal
    assert controller.root_cause(ExceptionGroup("g", [foreign, ours])) is ours
    assert controller.root_cause(ExceptionGroup("g", [foreign, KeyError("y")])) is foreign
    assert controller.root_cause(foreign) is foreign
