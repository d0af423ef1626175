"""What one step of a pass found: go on, wait, or stop.

The first step that does not go on ends the pass. Its finding becomes a condition, a row of
`status.steps`, and the moment of the next look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass.objects.condition import Condition


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one step; `ends` stops the pass here, `failed` until inputs change.

    A `warning` is part of the condition's message, and worth an event.
    """

    condition: Condition
    ends: bool = False
    after: float | None = None
    retry: bool = False
    failed: bool = False
    warning: str = ""


def done(kind: str, reason: str, message: str) -> Finding:
    """The step holds; the next one may be looked at."""
    return Finding(Condition(kind, "True", reason, message))


def warned(finding: Finding, warning: str) -> Finding:
    """The same, with something that somebody should know."""
    row = finding.condition
    text = f"{row.message}; {warning}"
    return replace(finding, condition=replace(row, message=text), warning=warning)


def waiting(kind: str, reason: str, message: str, *, after: float | None = None) -> Finding:
    """Something else must happen first; a watch or `after` seconds lead back here."""
    return Finding(Condition(kind, "False", reason, message), ends=True, after=after)


def pending(kind: str, reason: str, message: str, *, after: float | None = None) -> Finding:
    """The same for something that is under way: nothing is known to be wrong."""
    return Finding(Condition(kind, "Unknown", reason, message), ends=True, after=after)


def failed(kind: str, reason: str, message: str) -> Finding:
    """Inputs must change."""
    return Finding(Condition(kind, "False", reason, message), ends=True, failed=True)


def retrying(kind: str, reason: str, message: str) -> Finding:
    """A fault that may pass; the next look comes with backoff."""
    return Finding(Condition(kind, "False", reason, message), ends=True, retry=True)
