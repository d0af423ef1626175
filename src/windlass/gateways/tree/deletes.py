"""Decides which files a sync may delete, and when a person has to allow it first.

`PlanInputs` is what a plan is decided on: the desired layout, the last manifest, the live tree.
The table of APP-9 (a path is ours if the manifest has it):

| where a live file lies that is no longer desired | Mirror | Manifest | Never |
|---|---|---|---|
| in a managed directory | every file | ours | - |
| there, but from before it was managed (adopted) | ours, others if allowed | ours | - |
| in a managed directory that was none before | ours | ours | - |
| outside: its root left the plan | ours | ours | ours |

Excluded and protected paths and the API token used for scans are never deleted. So the first
sync, when nothing is ours yet, deletes nothing at all. Symlinks are not files and stay. Too many
deletes stop the sync until it is allowed for exactly this commit and routing; adopted files are
kept until then, however few they are, and the sync goes on without them.

A managed directory may hold files that no commit brought. Under the policy Mirror:

| such a file | is deleted |
|---|---|
| came after the directory became managed | with the next sync |
| was there before: adopted | once a person allows this commit to delete |
| is there, and the manifest has no record of adoption | as if it were adopted |

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
from windlass.gateways.tree.plan_steps import PlanStep
from windlass.gateways.wire.routing import ANNOTATION_PREFIX


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """One gateway at one moment; `manifest` is None before its first sync."""

    layout: Layout
    manifest: Manifest | None
    live_tree: LiveTree

    @property
    def synced_files(self) -> Mapping[str, ManifestEntry]:
        """What we brought over."""
        return self.manifest.files if self.manifest is not None else {}

    @property
    def previous_directories(self) -> frozenset[str]:
        """The directories we managed until now."""
        return frozenset(self.manifest.directories if self.manifest is not None else ())


def unmanaged_files(situation: PlanInputs) -> Iterator[str]:
    """Live files in managed directories that neither the commit nor an earlier sync brought."""
    layout, ours = situation.layout, situation.synced_files
    managed = layout.managed_directories
    for path in situation.live_tree.files:
        if path in layout.files or path in ours:
            continue
        if live_tree.is_within(path, managed):
            yield path


def adopted_files(situation: PlanInputs) -> frozenset[str]:
    """Those of the unmanaged files that were there before their directory became managed."""
    manifest, before = situation.manifest, situation.previous_directories
    found = unmanaged_files(situation)
    if manifest is None or manifest.adopted is None:
        return frozenset(found)
    known = frozenset(manifest.adopted)
    return frozenset(
        path for path in found if path in known or not live_tree.is_within(path, before)
    )


def adoption_record(situation: PlanInputs, steps: Iterable[PlanStep]) -> tuple[str, ...]:
    """What a manifest records after `steps`."""
    gone = {step.path for step in steps if step.op == "delete"}
    return tuple(sorted(adopted_files(situation) - gone))


DeletePolicy: TypeAlias = Literal["Mirror", "Manifest", "Never"]

# Below this many, a share of the files says nothing.
MIN_DELETES_FOR_PERCENT = 10
_MAX_NAMES = 5
# So that the word to say, which stands at the end, is within what a status shows.
_PATH_CHARS = 50
_API_TOKEN_FOLDER = ("ignition", "api-token")


@dataclass(frozen=True, slots=True)
class DeleteAllowance:
    """A person's word that one commit may delete much, under one routing."""

    commit: str
    routing_hash: str


@dataclass(frozen=True, slots=True)
class DeleteSafety:
    """`spec.safety` as far as deletes go; `api_token` is the name in the key we scan with."""

    delete_policy: DeletePolicy = "Mirror"
    max_deletes: int = 1000
    max_delete_percent: int = 25
    api_token: str = ""
    allowed: DeleteAllowance | None = None


class PlanGuard(msgspec.Struct, frozen=True):
    """A finding that holds the whole plan back."""

    reason: str
    message: str


def files_to_delete(
    situation: PlanInputs, safety: DeleteSafety, kept: Collection[str] = ()
) -> dict[str, str]:
    """The live files to delete, in path order, each with the reason.

    `kept` are adopted files that must stay.
    """
    found = dict(_obsolete_files(situation, safety.delete_policy))
    if safety.delete_policy == "Mirror":
        found.update(_extra_files(situation, kept))
    return {path: found[path] for path in sorted(found) if _is_deletable(situation, safety, path)}


def files_to_confirm(
    situation: PlanInputs, safety: DeleteSafety, adopted: Collection[str]
) -> list[str]:
    """Those of `adopted` that wait for a person's word, in path order."""
    if safety.delete_policy != "Mirror":
        return []
    return sorted(path for path in adopted if _is_deletable(situation, safety, path))


def confirmation_warning(kept: Collection[str], *, commit: str) -> str:
    """What to say about files that are kept although the commit does not have them."""
    was, them = ("was", "it") if len(kept) == 1 else ("were", "them")
    return (
        f"{_format_count(len(kept))} {was} on the gateway before the directory was synced and "
        f"{'is' if len(kept) == 1 else 'are'} kept: {_examples(kept)}. To delete {them}, annotate "
        f'with {ANNOTATION_PREFIX}allow-mass-delete="{commit}"; to keep {them} for good, '
        f"exclude {them}"
    )


def _is_deletable(situation: PlanInputs, safety: DeleteSafety, path: str) -> bool:
    return not situation.layout.is_off_limits(path) and not is_api_token(path, safety.api_token)


def is_api_token(path: str, name: str) -> bool:
    """Whether `path` is of the gateway's resource for the API token `name`."""
    parts = path.split("/")
    in_collection = parts[:2] == ["config", "resources"] and tuple(parts[3:5]) == _API_TOKEN_FOLDER
    return bool(name) and in_collection and parts[5:6] == [name]


def mass_delete_guard(
    situation: PlanInputs, safety: DeleteSafety, deletes: Collection[str], *, commit: str
) -> PlanGuard | None:
    """The objection to `deletes` (without moves), allowance or not."""
    cause = _guard_cause(situation, safety, deletes)
    if cause is None:
        return None
    return PlanGuard(
        "MassDeleteGuard",
        f"{_format_count(len(deletes))} would be deleted, {cause}: {_examples(deletes)}. "
        f'If this is meant, annotate with {ANNOTATION_PREFIX}allow-mass-delete="{commit}"',
    )


def moved_files(
    situation: PlanInputs, deletes: Collection[str], put_blobs: Counter[str]
) -> frozenset[str]:
    """Those of `deletes` whose content is put elsewhere by the same plan.

    Every put explains one delete only, or a single small file could hide many.
    """
    free = Counter(put_blobs)
    found = set()
    for path in sorted(deletes):
        entry = situation.synced_files.get(path)
        if entry is not None and free[entry.blob] > 0:
            free[entry.blob] -= 1
            found.add(path)
    return frozenset(found)


def _obsolete_files(situation: PlanInputs, policy: DeletePolicy) -> Iterator[tuple[str, str]]:
    managed = situation.layout.managed_directories
    for path in situation.synced_files:
        if path in situation.layout.files or path not in situation.live_tree.files:
            continue
        if not live_tree.is_within(path, managed):
            yield path, "its mapping left the plan"
        elif policy != "Never":
            yield path, "no longer in the commit"


def _extra_files(situation: PlanInputs, kept: Collection[str]) -> Iterator[tuple[str, str]]:
    before = situation.previous_directories
    for path in unmanaged_files(situation):
        if path not in kept and live_tree.is_within(path, before):
            yield path, "not in the commit"


def _guard_cause(
    situation: PlanInputs, safety: DeleteSafety, deletes: Collection[str]
) -> str | None:
    count = len(deletes)
    if count > safety.max_deletes:
        return f"safety.maxDeletes is {safety.max_deletes}"
    if count == 0:
        return None
    managed = _count_managed(situation, deletes)
    if count >= MIN_DELETES_FOR_PERCENT and count * 100 > safety.max_delete_percent * managed:
        return (
            f"that is more than safety.maxDeletePercent ({safety.max_delete_percent}) "
            f"of {managed} managed files"
        )
    layout = situation.layout
    for root in (*layout.roots, *layout.vacant_roots):
        holds_nothing = root.kind == "dir" and root.path not in layout.directories
        if holds_nothing and any(path_rules.is_below(path, root.path) for path in deletes):
            return f"{root.path} would become empty"
    return None


def _examples(names: Collection[str]) -> str:
    first = [_shorten(path) for path in sorted(names)[:_MAX_NAMES]]
    more = ", ..." if len(names) > len(first) else ""
    return f"{', '.join(first)}{more}"


def _shorten(path: str) -> str:
    return path if len(path) <= _PATH_CHARS else f"…{path[1 - _PATH_CHARS :]}"


def _format_count(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"


def _count_managed(situation: PlanInputs, deletes: Collection[str]) -> int:
    """How many live files are wanted, ours or about to go."""
    wanted, ours, going = situation.layout.files, situation.synced_files, frozenset(deletes)
    return sum(
        1 for path in situation.live_tree.files if path in wanted or path in ours or path in going
    )
