"""Tells destinations what happened to their branch."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.reverser.branch import Branch
from windlass.reverser.decide import announcement
from windlass.reverser.folder import Folder
from windlass.reverser.party import Party
from windlass.reverser.surroundings import Surroundings


def rewound(around: Surroundings, branch: Branch, everyone: Iterable[tuple[Party, Folder]]) -> None:
    """The server's history was rewritten; every destination of the branch hears of it."""
    tip = branch.base or ""
    notice = announcement.rewound(branch.name, tip, branch.pushed or "")
    for _, folder in everyone:
        around.told(folder.target.key, notice, tip)


def pushed(around: Surroundings, folder: Folder, tip: str, *, creates: bool, claims: bool) -> None:
    """A push was acknowledged that made the branch, or claimed the folder."""
    target = folder.target
    for notice in announcement.of_push(
        target.branch, target.base_folder, creates=creates, claims=claims
    ):
        around.told(target.key, notice, tip)
