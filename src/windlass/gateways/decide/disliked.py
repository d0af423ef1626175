"""Names that Ignition has trouble with, although file systems allow them (PRO-5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_SIGNS = frozenset('`?*:|"<>')
_AT_ENDS = ("/ ", "/.", "/-", " /", "./")
_LAST = (" ", ".")
_PLACES = ("projects/", "config/")


def warnings(planned: Iterable[str]) -> Iterator[str]:
    """One sentence about all such names among the planned paths, or none."""
    found = [path for path in planned if is_disliked(path)]
    if found:
        yield (
            f"Ignition may not load {len(found)} planned paths because of signs in their names, "
            f"the first is {min(found)}"
        )


def is_disliked(path: str) -> bool:
    """Whether the name of `path` may keep Ignition from loading it."""
    if not path.startswith(_PLACES):
        return False
    if path.endswith(_LAST) or not _SIGNS.isdisjoint(path):
        return True
    return any(end in path for end in _AT_ENDS)
