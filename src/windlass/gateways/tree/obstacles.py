"""Finds what a plan removes besides deletes: obstacles, and directories that become empty.

An obstacle is a file in place of a directory, or a directory in place of a file. It is removed
before any other step, but only if a sync wrote it or the plan deletes it anyway. Any other
obstacle refuses the sync: a symlink, a file that no sync wrote, an excluded path.

Of the directories that deletes leave empty (APP-6) only those in a current or previous root are
removed, and only if this plan emptied them: one that was empty already belongs to the gateway. A
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

_OBSTACLE_REASON = "blocks a path of the commit"
_KIND_NAMES = {"symlink": "a symlink", "protected": "protected", "special": "a special file"}


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Files and directories to remove first; `files` has the reason of each."""

    files: Mapping[str, str]
    directories: frozenset[str]


def find_obstacles(
    inputs: PlanInputs, deletes: Mapping[str, str], puts: Iterable[str]
) -> Obstacles:
    """What to remove before `puts` are possible; raises `SyncRefused` if that is not allowed."""
    live = inputs.live_tree
    written = frozenset(puts)
    folders = path_rules.required_directories(written)
    for path in sorted(folders.union(written).intersection(live.others)):
        raise _obstacle_refused(
            path, f"it is {_KIND_NAMES[live.others[path]]}; the agent does not write through it"
        )
    inside, directories = _contents(inputs, written & live.directories)
    blocking = sorted(folders.intersection(live.files) | inside)
    for path in blocking:
        is_removable = path in inputs.synced_files and not inputs.layout.is_off_limits(path)
        if path not in deletes and not is_removable:
            raise _obstacle_refused(
                path, "it blocks a path of the commit and was not created by a sync"
            )
    return Obstacles(dict.fromkeys(blocking, _OBSTACLE_REASON), directories)


def _contents(inputs: PlanInputs, folders: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """All files and directories in `folders`, which are removed as a whole."""
    if not folders:
        return frozenset(), frozenset()
    live = inputs.live_tree
    surveyed = live_tree.survey_scope(inputs.layout.roots, inputs.manifest).walk
    for folder in sorted(folders):
        if not live_tree.is_within(folder, frozenset(surveyed)):
            raise _obstacle_refused(folder, "it is a directory, but a file in the commit")
    for path in sorted(_within(live.others, folders)):
        raise _obstacle_refused(
            path,
            f"it is {_KIND_NAMES[live.others[path]]} inside a directory that the commit "
            "replaces with a file",
        )
    return _within(live.files, folders), _within(live.directories, folders)


def _within(candidates: Iterable[str], folders: frozenset[str]) -> frozenset[str]:
    return frozenset(path for path in candidates if live_tree.is_within(path, folders))


def _obstacle_refused(path: str, what: str) -> SyncRefused:
    return SyncRefused(
        "UnsafePath", path, f"{path} on the gateway: {what}; move it or exclude the path"
    )


def directories_left_empty(
    inputs: PlanInputs, deletes: Iterable[str], obstacles: Obstacles
) -> frozenset[str]:
    """The directories to remove after `deletes`, when `obstacles` are already removed."""
    deleted = tuple(deletes)
    candidates = path_rules.required_directories(deleted) - _required_directories(inputs)
    if not candidates:
        return frozenset()
    live = inputs.live_tree
    remaining = Counter(map(path_rules.parent, (*live.files, *live.directories, *live.others)))
    remaining.subtract(map(path_rules.parent, (*deleted, *obstacles.files, *obstacles.directories)))
    roots = inputs.layout.managed_directories | inputs.previous_directories
    emptied: set[str] = set()
    for folder in sorted(candidates, key=lambda path: -path.count("/")):
        if remaining[folder] <= 0 and live_tree.is_within(folder, roots):
            emptied.add(folder)
            remaining[path_rules.parent(folder)] -= 1
    return frozenset(emptied)


def _required_directories(inputs: PlanInputs) -> frozenset[str]:
    layout = inputs.layout
    return layout.directories.union(root.path for root in (*layout.roots, *layout.vacant_roots))
