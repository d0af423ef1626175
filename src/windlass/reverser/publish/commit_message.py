"""The message of a commit: subject, list of touched files, and trailers that cannot be forged.

Names of objects and users are untrusted text and are reduced to one line first. All trailers are
always present and always the last paragraph, so no text above them can pass for one; a commit
without an author states the reason in one more.

| Commit                    | Subject                                                        |
|---------------------------|----------------------------------------------------------------|
| one file                  | `[{operation}] {identifier} by user/{user}`                     |
| several files             | `[BATCH] {n} objects ({top 3 resources}) by user/{user}`       |
| snapshot                  | `[SYNC] {n} objects (+a ~m -d) in {baseFolder}`, or `1 object` |

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from windlass.objects.names import format_count
from windlass.reverser.attribution import author
from windlass.reverser.attribution.record_join import Tier
from windlass.reverser.publish.commit_plan import PlannedChange

CommitKind = Literal["changes", "sync"]

MAX_LINES = 50

_TOP_RESOURCES = 3
_PREFIX = "X-ConfigButler-"
_NO_VALUE = "(none)"


@dataclass(frozen=True, slots=True)
class Trailers:
    """The origin of a commit, as its trailers state it."""

    cluster_uid: str
    """Name of the cluster: configured, else the uid of namespace kube-system."""
    controller_namespace: str
    """Namespace of the installation."""
    controller_name: str
    """Name of the release."""
    instance_id: str
    """The process that built the commit."""
    destination: str
    """The GitDestination, as `namespace/name`."""
    user: str
    """User of the admission request; empty for a snapshot."""
    attribution: Tier
    """How well the author is proven."""
    unresolved: str = ""
    """Why no author is named; empty if one is, and then the trailer is absent."""

    def lines(self) -> list[str]:
        """The trailer lines, each value reduced to one line."""
        rows = (
            ("ClusterUID", self.cluster_uid),
            ("ControllerNS", self.controller_namespace),
            ("ControllerName", self.controller_name),
            ("InstanceID", self.instance_id),
            ("Destination", self.destination),
            ("User", self.user),
            ("Attribution", self.attribution),
            *((("Unresolved", self.unresolved),) if self.unresolved else ()),
        )
        return [
            f"{_PREFIX}{name}: {author.to_single_line(text).strip() or _NO_VALUE}"
            for name, text in rows
        ]


def render_message(
    changes: Sequence[PlannedChange],
    trailers: Trailers,
    *,
    kind: CommitKind = "changes",
    base_folder: str = "",
) -> str:
    """The whole message: subject, reasons of removals, list of files, trailers."""
    subject = render_subject(changes, trailers.user, kind=kind, base_folder=base_folder)
    paragraphs = [author.to_single_line(subject).strip()]
    if reasons := _reasons(changes):
        paragraphs.append("\n".join(reasons))
    if reasons or len(changes) > 1:
        paragraphs.append("\n".join(_listing(changes)))
    paragraphs.append("\n".join(trailers.lines()))
    return "\n\n".join(paragraphs) + "\n"


def render_subject(
    changes: Sequence[PlannedChange], user: str, *, kind: CommitKind, base_folder: str
) -> str:
    """The subject of a commit, by the table above."""
    if kind == "sync":
        objects = format_count(len(changes), "object")
        return f"[SYNC] {objects} ({_operation_counts(changes)}) in {base_folder}"
    by = f"by user/{user or author.UNRESOLVED.name}"
    if len(changes) == 1:
        return f"[{changes[0].op}] {author.to_single_line(changes[0].identity.identifier)} {by}"
    return f"[BATCH] {len(changes)} objects ({_top_resources(changes)}) {by}"


def _operation_counts(changes: Sequence[PlannedChange]) -> str:
    count = Counter(change.op for change in changes)
    return f"+{count['CREATE']} ~{count['UPDATE']} -{count['DELETE']}"


def _top_resources(changes: Sequence[PlannedChange]) -> str:
    count = Counter(change.identity.gvr.resource for change in changes)
    ranked = sorted(count.items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(f"{number} {resource}" for resource, number in ranked[:_TOP_RESOURCES])


def _listing(changes: Sequence[PlannedChange]) -> list[str]:
    lines = [_line(change) for change in changes[:MAX_LINES]]
    remaining = len(changes) - MAX_LINES
    return [*lines, f"and {remaining} more"] if remaining > 0 else lines


def _reasons(changes: Sequence[PlannedChange]) -> list[str]:
    """Reasons of removals whose objects may still exist, each with its count."""
    count = Counter(change.reason for change in changes if change.reason)
    return [
        f"{format_count(number, 'object')} no longer mirrored: {reason}"
        for reason, number in sorted(count.items())
    ]


def _line(change: PlannedChange) -> str:
    # DELETE would suggest that a user deleted the object.
    word = "REMOVE" if change.reason else change.op
    return f"{word} {author.to_single_line(change.path)}"
