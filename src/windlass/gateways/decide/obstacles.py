"""What stands where a plan wants something of another kind.

A file in the place of a directory, or a directory in the place of a file, goes before
anything else is done, but only if it is ours or about to be deleted anyway. Everything
else in the way refuses the sync: a symlink, a file nobody gave us, something excluded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from windlass.gateways.decide import live as live_trees
from windlass.gateways.decide import paths
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.situation import Situation

_WHY = "something of another kind is wanted here"
_KINDS = {"symlink": "a symlink", "protected": "protected", "special": "a special file"}


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Files and directories that go first; `files` has the reason of each."""

    files: Mapping[str, str]
    directories: frozenset[str]


def obstacles(situation: Situation, doomed: Mapping[str, str], puts: Iterable[str]) -> Obstacles:
    """What has to go before `puts` can be made; `Refused` where something may not go."""
    live = situation.live
    wanted = frozenset(puts)
    folders = paths.all_parents(wanted)
    for path in sorted(folders.union(wanted).intersection(live.others)):
        raise _refused(path, f"it is {_KINDS[live.others[path]]}, and never written through")
    inside, directories = _contents(situation, wanted & live.directories)
    going = sorted(folders.intersection(live.files) | inside)
    for path in going:
        mine = path in situation.ours and not situation.layout.spares(path)
        if path not in doomed and not mine:
            raise _refused(path, "it is in the way of the commit, but not ours to delete")
    return Obstacles(dict.fromkeys(going, _WHY), directories)


def _contents(
    situation: Situation, folders: frozenset[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """All files and directories in `folders`, which have to go as a whole."""
    if not folders:
        return frozenset(), frozenset()
    live = situation.live
    walked = live_trees.lookups(situation.layout.roots, situation.manifest).walk
    for folder in sorted(folders):
        if not live_trees.covered(folder, frozenset(walked)):
            raise _refused(folder, "it is a directory where the commit has a file")
    for path in sorted(_within(live.others, folders)):
        raise _refused(path, f"it is {_KINDS[live.others[path]]}, where a file has to be")
    return _within(live.files, folders), _within(live.directories, folders)


def _within(candidates: Iterable[str], folders: frozenset[str]) -> frozenset[str]:
    return frozenset(path for path in candidates if live_trees.covered(path, folders))


def _refused(path: str, what: str) -> Refused:
    return Refused(
        "UnsafePath", path, f"{path} on the gateway: {what}; move it away by hand or exclude it"
    )
