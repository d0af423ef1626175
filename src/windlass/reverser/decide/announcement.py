"""The words of events that are no turn of a condition.

Whoever notices such a thing makes the notice here; `reverser.announcer` records it on the
destination, once for each transition.
"""

from __future__ import annotations

from windlass.objects.names import Identity
from windlass.runtime.outcome import OutcomeEvent
from windlass.telemetry.reasons import EventReason

_MOST_NAMED = 3


def of_push(branch: str, folder: str, *, creates: bool, claims: bool) -> tuple[OutcomeEvent, ...]:
    """What an acknowledged push did beside bringing files."""
    found = []
    if creates:
        text = f"branch {branch} was made"
        found.append(OutcomeEvent("Normal", EventReason.BRANCH_CREATED, text))
    if claims:
        text = f"folder {folder} of branch {branch} belongs to this destination now"
        found.append(OutcomeEvent("Normal", EventReason.DESTINATION_CLAIMED, text))
    return tuple(found)


def rewound(branch: str, tip: str, lost: str) -> OutcomeEvent:
    """The server's history no longer holds what we pushed."""
    return OutcomeEvent(
        "Warning",
        EventReason.REMOTE_REWOUND,
        f"branch {branch} was rewritten: {tip[:8]} does not descend from {lost[:8]}, which was "
        "pushed last; what is missing is written again on top of it",
    )


def moved(branch: str, folder: str, remote: str) -> OutcomeEvent:
    """A destination writes somewhere else from now on."""
    return OutcomeEvent(
        "Normal",
        EventReason.DESTINATION_MOVED,
        f"folder {folder} of branch {branch} on {remote} is no longer written; what it holds "
        "stays there as it is",
    )


def forbidden(scope: str, why: str) -> OutcomeEvent:
    """Objects that we may not list or watch."""
    return OutcomeEvent(
        "Warning",
        EventReason.TYPE_FORBIDDEN,
        f"{scope} may not be read: {why}; its files stay as they are until it may",
    )


def undecodable(identity: Identity, why: str) -> OutcomeEvent:
    """An object that cannot be read without guessing."""
    return OutcomeEvent(
        "Warning",
        EventReason.OBJECT_UNDECODABLE,
        f"{identity} cannot be read: {why}; its file stays as it is until it can",
    )


def exposed(identities: tuple[Identity, ...]) -> OutcomeEvent:
    """Files in Git that show values which are redacted from now on."""
    named = ", ".join(map(str, identities[:_MOST_NAMED]))
    more = len(identities) - _MOST_NAMED
    return OutcomeEvent(
        "Warning",
        EventReason.SECRETS_EXPOSED,
        f"{named}{f' and {more} more' if more > 0 else ''}: the file in Git held values in plain "
        "text; they are redacted from the next commit on, but earlier history keeps them: change "
        "the values, then rewrite the history if others can read it",
    )
