"""Kubernetes Events of a GitDestination that are not caused by a condition change.

The mirror and the branch workers build them here; `event_queue` records each once per
transition.

Pure.
"""

from __future__ import annotations

from windlass.objects.names import Identity
from windlass.runtime.outcome import OutcomeEvent
from windlass.telemetry.reasons import EventReason

_MAX_NAMED = 3


def push_events(
    branch: str, folder: str, *, creates: bool, claims: bool
) -> tuple[OutcomeEvent, ...]:
    """Events of an acknowledged push that created the branch or claimed the folder."""
    events = []
    if creates:
        text = f"created branch {branch}"
        events.append(OutcomeEvent("Normal", EventReason.BRANCH_CREATED, text))
    if claims:
        text = f"claimed folder {folder} on branch {branch}"
        events.append(OutcomeEvent("Normal", EventReason.DESTINATION_CLAIMED, text))
    return tuple(events)


def history_rewritten(branch: str, tip: str, lost: str) -> OutcomeEvent:
    """The Event of a branch whose history no longer contains what we pushed."""
    return OutcomeEvent(
        "Warning",
        EventReason.REMOTE_REWOUND,
        f"branch {branch} was rewritten: {tip[:8]} does not contain {lost[:8]}, the commit pushed "
        "last; missing changes will be pushed again",
    )


def destination_moved(branch: str, folder: str, remote: str) -> OutcomeEvent:
    """The Event of a destination that writes to another location from now on."""
    return OutcomeEvent(
        "Normal",
        EventReason.DESTINATION_MOVED,
        f"no longer writing to folder {folder} on branch {branch} of {remote}; its files are kept",
    )


def type_forbidden(scope: str, detail: str) -> OutcomeEvent:
    """The Event of a scope that we may not list or watch."""
    return OutcomeEvent(
        "Warning",
        EventReason.TYPE_FORBIDDEN,
        f"{scope} cannot be listed or watched: {detail}; its files are kept unchanged; grant the "
        "operator get, list and watch on this type",
    )


def object_undecodable(identity: Identity, detail: str) -> OutcomeEvent:
    """The Event of an object that cannot be decoded without guessing."""
    return OutcomeEvent(
        "Warning",
        EventReason.OBJECT_UNDECODABLE,
        f"{identity} cannot be decoded: {detail}; its file is kept unchanged",
    )


def secrets_exposed(identities: tuple[Identity, ...]) -> OutcomeEvent:
    """The Event of files in Git that show values which are redacted from now on."""
    named = ", ".join(map(str, identities[:_MAX_NAMED]))
    more = len(identities) - _MAX_NAMED
    return OutcomeEvent(
        "Warning",
        EventReason.SECRETS_EXPOSED,
        f"{named}{f' and {more} more' if more > 0 else ''}: Git contains plain-text values; they "
        "are redacted from the next commit on but remain in the history: rotate them, then "
        "rewrite the history if others can read it",
    )
