"""What may be deleted from a gateway, and when a person has to say so first.

The table of APP-9 (a path is ours if the manifest has it):

| where a live file lies, not wanted any more | Mirror | Manifest | Never |
|---|---|---|---|
| in a managed directory | every file | ours | - |
| there, but from before it was managed (`adoption`) | ours, others if allowed | ours | - |
| in a managed directory that was none before | ours | ours | - |
| outside: its root left the plan | ours | ours | ours |

Excluded and protected paths and the API token we scan with never go. So the first sync,
when nothing is ours yet, deletes nothing at all. Symlinks are not files and stay. Too many
deletes stop the sync until it is allowed for exactly this commit and routing; adopted files
are kept until then, however few they are, and the sync goes on without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from windlass.gateways.decide import adoption, paths
from windlass.gateways.decide import live as live_trees
from windlass.gateways.decide.routing import PREFIX
from windlass.gateways.decide.situation import Situation

DeletePolicy: TypeAlias = Literal["Mirror", "Manifest", "Never"]

# Below this many, a share of the files says nothing.
FEW = 10
_SHOWN = 5
# So that the word to say, which stands at the end, is within what a status shows.
_PATH_CHARS = 50
_TOKENS = ("ignition", "api-token")


@dataclass(frozen=True, slots=True)
class Allowance:
    """A person's word that one commit may delete much, under one routing."""

    commit: str
    routing_hash: str


@dataclass(frozen=True, slots=True)
class Safety:
    """`spec.safety` as far as deletes go; `api_token` is the name in the key we scan with."""

    delete_policy: DeletePolicy = "Mirror"
    max_deletes: int = 1000
    max_delete_percent: int = 25
    api_token: str = ""
    allowed: Allowance | None = None


class Guard(msgspec.Struct, frozen=True):
    """A finding that holds the whole plan back."""

    reason: str
    message: str


def doomed(situation: Situation, safety: Safety, kept: Collection[str] = ()) -> dict[str, str]:
    """The live files to delete, in path order, each with the reason.

    `kept` are adopted files that must stay.
    """
    found = dict(_ours(situation, safety.delete_policy))
    if safety.delete_policy == "Mirror":
        found.update(_extra(situation, kept))
    return {path: found[path] for path in sorted(found) if _may_go(situation, safety, path)}


def kept_back(situation: Situation, safety: Safety, adopted: Collection[str]) -> list[str]:
    """Those of `adopted` that wait for a person's word, in path order."""
    if safety.delete_policy != "Mirror":
        return []
    return sorted(path for path in adopted if _may_go(situation, safety, path))


def kept_warning(kept: Collection[str], *, commit: str) -> str:
    """What to say about files that are kept although the commit does not have them."""
    was, them = ("was", "it") if len(kept) == 1 else ("were", "them")
    return (
        f"{_counted(len(kept))} {was} on the gateway before the directory was synced and "
        f"{'is' if len(kept) == 1 else 'are'} kept: {_first(kept)}. To delete {them}, annotate "
        f'with {PREFIX}allow-mass-delete="{commit}"; to keep {them} for good, exclude {them}'
    )


def _may_go(situation: Situation, safety: Safety, path: str) -> bool:
    return not situation.layout.spares(path) and not is_api_token(path, safety.api_token)


def is_api_token(path: str, name: str) -> bool:
    """Whether `path` is of the gateway's resource for the API token `name`."""
    parts = path.split("/")
    in_collection = parts[:2] == ["config", "resources"] and tuple(parts[3:5]) == _TOKENS
    return bool(name) and in_collection and parts[5:6] == [name]


def guard(
    situation: Situation, safety: Safety, deletes: Collection[str], *, commit: str
) -> Guard | None:
    """The objection to `deletes` (without moves), allowance or not."""
    cause = _cause(situation, safety, deletes)
    if cause is None:
        return None
    return Guard(
        "MassDeleteGuard",
        f"{_counted(len(deletes))} would be deleted, {cause}: {_first(deletes)}. "
        f'If this is meant, annotate with {PREFIX}allow-mass-delete="{commit}"',
    )


def moved(
    situation: Situation, deletes: Collection[str], put_blobs: Counter[str]
) -> frozenset[str]:
    """Those of `deletes` whose content is put elsewhere by the same plan.

    Every put explains one delete only, or a single small file could hide many.
    """
    free = Counter(put_blobs)
    found = set()
    for path in sorted(deletes):
        entry = situation.ours.get(path)
        if entry is not None and free[entry.blob] > 0:
            free[entry.blob] -= 1
            found.add(path)
    return frozenset(found)


def _ours(situation: Situation, policy: DeletePolicy) -> Iterator[tuple[str, str]]:
    managed = situation.layout.managed_directories
    for path in situation.ours:
        if path in situation.layout.files or path not in situation.live.files:
            continue
        if not live_trees.covered(path, managed):
            yield path, "its mapping left the plan"
        elif policy != "Never":
            yield path, "no longer in the commit"


def _extra(situation: Situation, kept: Collection[str]) -> Iterator[tuple[str, str]]:
    before = situation.directories_before
    for path in adoption.unmanaged(situation):
        if path not in kept and live_trees.covered(path, before):
            yield path, "not in the commit"


def _cause(situation: Situation, safety: Safety, deletes: Collection[str]) -> str | None:
    count = len(deletes)
    if count > safety.max_deletes:
        return f"safety.maxDeletes is {safety.max_deletes}"
    if count == 0:
        return None
    managed = _managed(situation, deletes)
    if count >= FEW and count * 100 > safety.max_delete_percent * managed:
        return (
            f"that is more than safety.maxDeletePercent ({safety.max_delete_percent}) "
            f"of {managed} managed files"
        )
    layout = situation.layout
    for root in (*layout.roots, *layout.vacant):
        holds_nothing = root.kind == "dir" and root.path not in layout.directories
        if holds_nothing and any(paths.is_below(path, root.path) for path in deletes):
            return f"{root.path} would become empty"
    return None


def _first(names: Collection[str]) -> str:
    first = [_short(path) for path in sorted(names)[:_SHOWN]]
    more = ", ..." if len(names) > len(first) else ""
    return f"{', '.join(first)}{more}"


def _short(path: str) -> str:
    return path if len(path) <= _PATH_CHARS else f"…{path[1 - _PATH_CHARS :]}"


def _counted(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"


def _managed(situation: Situation, deletes: Collection[str]) -> int:
    """How many live files are wanted, ours or about to go."""
    wanted, ours, going = situation.layout.files, situation.ours, frozenset(deletes)
    return sum(
        1 for path in situation.live.files if path in wanted or path in ours or path in going
    )
