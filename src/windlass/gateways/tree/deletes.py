"""Decides which files a sync may delete, and which deletes need an allowance first.

`PlanInputs` are the inputs of a plan: the desired layout, the last manifest, the live tree. The
table of APP-9 (a path is ours if the manifest has it):

| a live file that is no longer desired | Mirror | Manifest | Never |
|---|---|---|---|
| in a managed directory | every file | ours | - |
| there, but older than its management (adopted) | ours, others if approved | ours | - |
| in a newly managed directory | ours | ours | - |
| outside: its root is no longer managed | ours | ours | ours |

Excluded and protected paths and the API token used for scans are never deleted. While the name of
that token is unknown, every token that is not ours is kept: it may be the one. So the first sync,
when nothing is ours yet, deletes nothing at all. Symlinks are not files and stay. Too many deletes
stop the sync until it is allowed for exactly this commit and routing. Adopted files are kept,
however few they are, until a person was asked about each of them and allowed it; the sync goes on
without them.

A managed directory may hold files that no commit brought. Under the policy Mirror:

| such a file | is deleted |
|---|---|
| came after the directory became managed | with the next sync |
| was there before: adopted | once an allowance for this commit and routing names it |
| any, and the manifest has no record of adoption | as if it were adopted |

The manifest records adopted files, and a record ends when the file is gone, becomes part of the
commit, or lies in no managed directory any more. A manifest without a record was written by an
earlier version: where a file came from is not known then, so none of them is deleted.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from windlass.gateways.tree import live_tree, path_rules
from windlass.gateways.tree.layout import Layout
from windlass.gateways.tree.live_tree import LiveTree
from windlass.gateways.tree.manifest import Manifest, ManifestEntry
from windlass.gateways.tree.path_rules import SyncRefused
from windlass.gateways.tree.plan_steps import PlanStep
from windlass.gateways.wire.routing import ANNOTATION_PREFIX
from windlass.objects.names import format_count


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """The inputs of a plan for one gateway; `manifest` is None before its first sync."""

    layout: Layout
    manifest: Manifest | None
    live_tree: LiveTree

    @property
    def synced_files(self) -> Mapping[str, ManifestEntry]:
        """The entries of the manifest: files that earlier syncs wrote."""
        return self.manifest.files if self.manifest is not None else {}

    @property
    def previous_directories(self) -> frozenset[str]:
        """The directories that the last sync managed."""
        return frozenset(self.manifest.directories if self.manifest is not None else ())


def unmanaged_files(inputs: PlanInputs) -> Iterator[str]:
    """Live files in managed directories that are neither in the commit nor in the manifest."""
    layout, synced = inputs.layout, inputs.synced_files
    managed = layout.managed_directories
    for path in inputs.live_tree.files:
        if path in layout.files or path in synced:
            continue
        if live_tree.is_within(path, managed):
            yield path


def adopted_files(inputs: PlanInputs) -> frozenset[str]:
    """The unmanaged files that existed before their directory became managed."""
    manifest, previous = inputs.manifest, inputs.previous_directories
    unmanaged = unmanaged_files(inputs)
    if manifest is None or manifest.adopted is None:
        return frozenset(unmanaged)
    recorded = frozenset(manifest.adopted)
    return frozenset(
        path for path in unmanaged if path in recorded or not live_tree.is_within(path, previous)
    )


def adoption_record(inputs: PlanInputs, steps: Iterable[PlanStep]) -> tuple[str, ...]:
    """The adopted files that the manifest records after `steps`."""
    deleted = {step.path for step in steps if step.op == "delete"}
    return tuple(sorted(adopted_files(inputs) - deleted))


DeletePolicy: TypeAlias = Literal["Mirror", "Manifest", "Never"]

# Below this many deletes, a percentage is not meaningful.
MIN_DELETES_FOR_PERCENT = 10
_MAX_NAMES = 5
# Fewer where a message has more to say.
_FEW_NAMES = 3
# Short enough that the annotation at the end of the message is not cut off in a status.
_PATH_CHARS = 50
_ANNOTATION = f"{ANNOTATION_PREFIX}allow-mass-delete"
_API_TOKEN_FOLDER = ("ignition", "api-token")
# config, resources, the collection, and the folder above.
_API_TOKEN_DEPTH = 5


@dataclass(frozen=True, slots=True)
class DeleteAllowance:
    """An allowance for one commit to delete files, under one routing.

    It lifts the guard against many deletes. Of the adopted files it covers `adopted`; None covers
    all of them.
    """

    commit: str
    routing_hash: str
    adopted: frozenset[str] | None

    def covers(self, commit: str, routing_hash: str) -> bool:
        """Whether it is for exactly this commit and routing."""
        return (self.commit, self.routing_hash) == (commit, routing_hash)


@dataclass(frozen=True, slots=True)
class DeleteSafety:
    """The delete rules of `spec.safety`; `api_token` is the name of the token used for scans.

    It is empty while it is unknown.
    """

    delete_policy: DeletePolicy = "Mirror"
    max_deletes: int = 1000
    max_delete_percent: int = 25
    api_token: str = ""
    allowed: DeleteAllowance | None = None


class PlanGuard(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding that blocks the whole plan."""

    reason: str
    message: str
    # Adopted files that an allowance would delete besides.
    adopted: tuple[str, ...] = ()


class DeletesRefused(SyncRefused):
    """A plan was refused until its deletes are allowed; `adopted` would be deleted besides."""

    def __init__(self, guard: PlanGuard) -> None:
        super().__init__(guard.reason, "", guard.message)
        self.adopted = guard.adopted


def files_to_delete(
    inputs: PlanInputs, safety: DeleteSafety, kept: Collection[str] = ()
) -> dict[str, str]:
    """The live files to delete, in path order, each with the reason.

    `kept` are adopted files that must stay.
    """
    reasons = dict(_obsolete_files(inputs, safety.delete_policy))
    if safety.delete_policy == "Mirror":
        reasons.update(_extra_files(inputs, safety, kept))
    return {path: reasons[path] for path in sorted(reasons) if _is_deletable(inputs, safety, path)}


def files_to_confirm(
    inputs: PlanInputs, safety: DeleteSafety, adopted: Collection[str]
) -> list[str]:
    """The files of `adopted` whose deletion needs an allowance, in path order."""
    if safety.delete_policy != "Mirror":
        return []
    return sorted(
        path
        for path in adopted
        if _is_deletable(inputs, safety, path) and not is_kept_token(path, safety.api_token)
    )


def confirmation_warning(kept: Collection[str], *, commit: str, is_early: bool) -> str:
    """The warning about files that are kept although the commit does not have them.

    `is_early` if the annotation that allows it named the commit before this was asked.
    """
    verb, them = ("is", "it") if len(kept) == 1 else ("are", "them")
    names = _examples(kept, _FEW_NAMES if is_early else _MAX_NAMES)
    return (
        f"{format_count(len(kept), 'file')} existed before the directory was synced and "
        f"{verb} kept: {names}. To delete {them}, {_remedy(commit, is_early=is_early)}; "
        f"to keep {them} without this warning, exclude {them}"
    )


def _remedy(commit: str, *, is_early: bool) -> str:
    if not is_early:
        return f'annotate with {_ANNOTATION}="{commit}"'
    return (
        f"remove {_ANNOTATION}, which was set before this message, wait until it changes, and "
        "set it again"
    )


def _is_deletable(inputs: PlanInputs, safety: DeleteSafety, path: str) -> bool:
    return not inputs.layout.is_off_limits(path) and not is_api_token(path, safety.api_token)


def is_api_token(path: str, name: str) -> bool:
    """Whether `path` belongs to the gateway's resource for the API token `name`."""
    return bool(name) and _is_any_api_token(path) and path.split("/")[5] == name


def is_kept_token(path: str, name: str) -> bool:
    """Whether a file that no sync wrote is kept because scans need it, or may need it.

    `name` is that of the token used for scans. It is empty before the Secret is mounted and while
    the Secret has no usable token: then the file of any token may be the one.
    """
    return is_api_token(path, name) if name else _is_any_api_token(path)


def _is_any_api_token(path: str) -> bool:
    parts = path.split("/")
    in_collection = parts[:2] == ["config", "resources"] and tuple(parts[3:5]) == _API_TOKEN_FOLDER
    return in_collection and len(parts) > _API_TOKEN_DEPTH


def mass_delete_guard(
    inputs: PlanInputs,
    safety: DeleteSafety,
    deletes: Collection[str],
    *,
    commit: str,
    is_early: bool = False,
) -> PlanGuard | None:
    """The guard against too many `deletes`, which must not include moves; None if few enough.

    `is_early` as for `confirmation_warning`.
    """
    cause = _guard_cause(inputs, safety, deletes)
    if cause is None:
        return None
    # Those of a newly managed directory are kept by this sync, and asked about after it.
    previous = inputs.previous_directories
    adopted = tuple(
        path
        for path in files_to_confirm(inputs, safety, adopted_files(inputs))
        if live_tree.is_within(path, previous)
    )
    names = _examples(deletes, _FEW_NAMES if adopted or is_early else _MAX_NAMES)
    more = (
        f", and {format_count(len(adopted), 'file')} from before the directory was synced: "
        f"{_examples(adopted, 1)}"
        if adopted
        else ""
    )
    return PlanGuard(
        "MassDeleteGuard",
        f"{format_count(len(deletes), 'file')} would be deleted, {cause}: {names}{more}. "
        f"To allow it, {_remedy(commit, is_early=is_early)}",
        adopted,
    )


def moved_files(
    inputs: PlanInputs, deletes: Collection[str], put_blobs: Counter[str]
) -> frozenset[str]:
    """The files of `deletes` whose content the same plan puts elsewhere.

    Every put matches one delete only, or a single small file could hide many.
    """
    unused_puts = Counter(put_blobs)
    moved = set()
    for path in sorted(deletes):
        entry = inputs.synced_files.get(path)
        if entry is not None and unused_puts[entry.blob] > 0:
            unused_puts[entry.blob] -= 1
            moved.add(path)
    return frozenset(moved)


def _obsolete_files(inputs: PlanInputs, policy: DeletePolicy) -> Iterator[tuple[str, str]]:
    managed = inputs.layout.managed_directories
    for path in inputs.synced_files:
        if path in inputs.layout.files or path not in inputs.live_tree.files:
            continue
        if not live_tree.is_within(path, managed):
            yield path, "no longer mapped"
        elif policy != "Never":
            yield path, "no longer in the commit"


def _extra_files(
    inputs: PlanInputs, safety: DeleteSafety, kept: Collection[str]
) -> Iterator[tuple[str, str]]:
    previous = inputs.previous_directories
    for path in unmanaged_files(inputs):
        if path in kept or is_kept_token(path, safety.api_token):
            continue
        if live_tree.is_within(path, previous):
            yield path, "not in the commit"


def _guard_cause(inputs: PlanInputs, safety: DeleteSafety, deletes: Collection[str]) -> str | None:
    count = len(deletes)
    if count > safety.max_deletes:
        return f"exceeding spec.safety.maxDeletes ({safety.max_deletes})"
    if count == 0:
        return None
    managed = _count_managed(inputs, deletes)
    if count >= MIN_DELETES_FOR_PERCENT and count * 100 > safety.max_delete_percent * managed:
        return (
            f"exceeding spec.safety.maxDeletePercent ({safety.max_delete_percent}) of "
            f"{format_count(managed, 'managed file')}"
        )
    layout = inputs.layout
    for root in (*layout.roots, *layout.vacant_roots):
        holds_nothing = root.kind == "dir" and root.path not in layout.directories
        if holds_nothing and any(path_rules.is_below(path, root.path) for path in deletes):
            return f"leaving {_shorten(root.path)} empty"
    return None


def _examples(names: Collection[str], limit: int) -> str:
    first = [_shorten(path) for path in sorted(names)[:limit]]
    more = ", ..." if len(names) > len(first) else ""
    return f"{', '.join(first)}{more}"


def _shorten(path: str) -> str:
    return path if len(path) <= _PATH_CHARS else f"…{path[1 - _PATH_CHARS :]}"


def _count_managed(inputs: PlanInputs, deletes: Collection[str]) -> int:
    """The number of live files that are desired, in the manifest or about to be deleted."""
    desired, synced, deleted = inputs.layout.files, inputs.synced_files, frozenset(deletes)
    return sum(
        1 for path in inputs.live_tree.files if path in desired or path in synced or path in deleted
    )
