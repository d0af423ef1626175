"""What an exception of a pass means for its object.

| raised               | Ready | Reconciling | Stalled | looked at again            |
|----------------------|-------|-------------|---------|----------------------------|
| Waiting(after)       | False | True        | -       | after `after`              |
| Stalled              | False | -           | True    | on change, or after `after`|
| Retryable            | False | True        | -       | backoff, or after `after`  |
| other WindlassError  | False | True        | -       | backoff                    |
| anything else        | False | True        | -       | backoff                    |

All of them are told as Warning events: a pass that cannot do its work is a failure, also
where it comes again by itself.

The text of an unknown exception goes to the log alone: it may hold anything, and
text that differs each time would write the status each time. An id that stays the same
leads from the condition to the log. `Fatal` has no outcome.
"""

from __future__ import annotations

from windlass.base.errors import Fatal, Retryable, Stalled, Waiting, WindlassError, error_id
from windlass.base.redaction import process
from windlass.runtime.outcome import Outcome, Verdict

INTERNAL = "InternalError"


def leading(error: BaseException) -> BaseException:
    """The error that decides: of a group the Fatal one, else the first of ours, else the first."""
    leaves = _leaves(error)
    for kind in (Fatal, WindlassError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def outcome_of(error: BaseException) -> Outcome:
    """The outcome of a pass that ended in `error`, by the table above."""
    if isinstance(error, Stalled):
        return Outcome(_verdict(error), stalled=True, requeue_after=error.after)
    # A wait of nothing would spin: then the backoff decides.
    if isinstance(error, Waiting | Retryable) and error.after is not None and error.after > 0:
        return Outcome(_verdict(error), reconciling=True, requeue_after=error.after, warns=True)
    if isinstance(error, WindlassError):
        return Outcome(_verdict(error), reconciling=True, backoff=True)
    return Outcome(_unexpected(error), reconciling=True, backoff=True)


def _verdict(error: WindlassError) -> Verdict:
    return Verdict("False", error.reason, process.clean(error.message))


def _unexpected(error: BaseException) -> Verdict:
    kind, name = type(error).__name__, error_id(error)
    text = f"unexpected {kind}, error id {name}; the log of the controller says where"
    return Verdict("False", INTERNAL, text)


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for child in error.exceptions for leaf in _leaves(child)]
