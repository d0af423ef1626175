"""Who keeps a folder when two destinations of one branch want the same files (GIT-2).

Folders that are equal, or one of which lies within the other, overlap; neighbours do not,
however much their names have in common. The verdict rests on Git and on the objects alone,
so it is the same after a restart:

| Only one of two has                    | Keeps the folder                    |
|----------------------------------------|-------------------------------------|
| an order to take it over               | that one                            |
| its claim in Git                       | that one                            |
| nothing more than it, one namespace    | the older one, then the first name  |
| nothing at all, two namespaces         | both, until one of them has a claim |
| as much as the other, two namespaces   | the older one, then the first name  |

So a destination that never pushed keeps nobody of another namespace out of a folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from windlass.objects.names import Key


class Title(IntEnum):
    """What a destination has to show for its folder; the greater wins."""

    NONE = 0
    CLAIM = 1
    TAKEOVER = 2


@dataclass(frozen=True, slots=True)
class Stake:
    """A destination that wants a folder; `created` is a timestamp that sorts as text."""

    destination: Key
    folder: str
    created: str
    title: Title

    def yields_to(self, other: Stake) -> bool:
        """Whether `other` keeps the folder."""
        if self.title != other.title:
            return self.title < other.title
        apart = self.destination.namespace != other.destination.namespace
        if apart and self.title == Title.NONE:
            return False
        return other.seniority < self.seniority

    @property
    def seniority(self) -> tuple[str, str]:
        """Who comes first where nothing in Git decides."""
        return self.created, str(self.destination)


def overlap(one: str, other: str) -> bool:
    """Whether a file of one folder could lie in the other."""
    shorter, longer = sorted((f"{one}/", f"{other}/"), key=len)
    return longer.startswith(shorter)


def message(loser: Stake, holder: Stake) -> str:
    """What the loser is told; a holder of another namespace is not named."""
    same = holder.destination.namespace == loser.destination.namespace
    who = (
        f"GitDestination {holder.destination} ({holder.folder})"
        if same
        else "another GitDestination"
    )
    return (
        f"{who} has a folder on this branch that overlaps {loser.folder}; choose another baseFolder"
    )
