"""What has to be removed besides deletes: files or directories in the way, and emptied directories.

A file in place of a directory, or a directory in place of a file, goes before anything else is
done, but only if it is ours or about to be deleted anyway. Everything else in the way refuses
the sync: a symlink, a file that no sync brought, something excluded.

Of the directories that deletes leave empty (APP-6) only those in a root of now or of before go,
and only if this plan emptied them: a directory that was empty already belongs to the gateway. A
root that is still managed stays, even empty.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass.gateways.tree import live_tree, path_rules
from windlass.gateways.tree.deletes import PlanInputs
from windlass.gateways.tree.path_rules import SyncRefused

_OBSTACLE_REASON = "something of another kind is wanted here"
_KIND_NAMES = {"symlink": "a symlink", "protected": "protected", "special": "a special file"}


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Files and directories that go first; `files` has the reason of each."""

    files: Mapping[str, str]
    directories: frozenset[str]


def find_obstacles(
    situation: PlanInputs, doomed: Mapping[str, str], puts: Iterable[str]
) -> Obstacles:
    """What has to go before `puts` can be made; `Refused` where something may not go."""
    live = situation.live_tree
    wanted = frozenset(puts)
    folders = path_rules.required_directories(wanted)
    for path in sorted(folders.union(wanted).intersection(live.others)):
        raise _obstacle_refused(
            path, f"it is {_KIND_NAMES[live.others[path]]}, and never written through"
        )
    inside, directories = _contents(situation, wanted & live.directories)
    going = sorted(folders.intersection(live.files) | inside)
    for path in going:
        mine = path in situation.synced_files and not situation.layout.is_off_limits(path)
        if path not in doomed and not mine:
            raise _obstacle_refused(path, "it is in the way of the commit, but not ours to delete")
    return Obstacles(dict.fromkeys(going, _OBSTACLE_REASON), directories)


def _contents(
    situation: PlanInputs, folders: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """All files and directories in `folders`, which have to go as a whole."""
    if not folders:
        return frozenset(), frozenset()
    live = situation.live_tree
    walked = live_tree.survey_scope(situation.layout.roots, situation.manifest).walk
    for folder in sorted(folders):
        if not live_tree.is_within(folder, frozenset(walked)):
            raise _obstacle_refused(folder, "it is a directory where the commit has a file")
    for path in sorted(_within(live.others, folders)):
        raise _obstacle_refused(
            path, f"it is {_KIND_NAMES[live.others[path]]}, where a file has to be"
        )
    return _within(live.files, folders), _within(live.directories, folders)


def _within(candidates: Iterable[str], folders: frozenset[str]) -> frozenset[str]:
    return frozenset(path for path in candidates if live_tree.is_within(path, folders))


def _obstacle_refused(path: str, what: str) -> SyncRefused:
    return SyncRefused(
        "UnsafePath", path, f"{path} on the gateway: {what}; move it away by hand or exclude it"
    )


def directories_left_empty(
    situation: PlanInputs, deletes: Iterable[str], first: Obstacles
) -> frozenset[str]:
    """The directories to remove after `deletes`, when `first` has already gone."""
    going = tuple(deletes)
    candidates = path_rules.required_directories(going) - _required_directories(situation)
    if not candidates:
        return frozenset()
    live = situation.live_tree
    left = Counter(map(path_rules.parent, (*live.files, *live.directories, *live.others)))
    left.subtract(map(path_rules.parent, (*going, *first.files, *first.directories)))
    roots = situation.layout.managed_directories | situation.previous_directories
    found: set[str] = set()
    for folder in sorted(candidates, key=lambda path: -path.count("/")):
        if left[folder] <= 0 and live_tree.is_within(folder, roots):
            found.add(folder)
            left[path_rules.parent(folder)] -= 1
    return frozenset(found)


def _required_directories(situation: PlanInputs) -> frozenset[str]:
    layout = situation.layout
    return layout.directories.union(root.path for root in (*layout.roots, *layout.vacant_roots))
