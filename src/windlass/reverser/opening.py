"""Opens a destination's folder: whose is it, and what does it hold?

A folder is opened before anything is written to it, and again whenever the branch moved
without us. The claim in it decides; a claim that cannot be read is never overwritten.
Where folders of several destinations overlap, `decide.overlap` says who keeps them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from windlass.base.errors import Stalled
from windlass.reverser.branch import Branch
from windlass.reverser.decide import claim, overlap
from windlass.reverser.decide.claim import Claim, Verdict
from windlass.reverser.decide.overlap import Stake, Title
from windlass.reverser.folder import Folder
from windlass.reverser.party import Party

OVERLAPPING = "OverlappingBaseFolder"


async def load(
    folder: Folder,
    branch: Branch,
    ours: Claim,
    *,
    destinations: frozenset[str],
    beside: Iterable[Folder],
) -> list[tuple[Folder, Stalled]]:
    """Take over what the branch holds; Stalled if the folder belongs to somebody else.

    `beside` are the folders that may hold something against this one. Back come those of
    them that must be closed, because this one keeps what both want.
    """
    entries = await branch.entries(folder.target.base_folder)
    found = entries.get(folder.claim_path)
    holder = None
    if found is not None:
        blobs = await branch.blobs(folder.target, [found.blob])
        holder = _holder(blobs[found.blob])
    verdict = claim.verdict(
        holder, ours, existing_destinations=destinations, takeover=folder.target.takeover
    )
    displaced = await _displaced(folder, branch, ours, _title(folder, verdict), beside)
    if isinstance(verdict, claim.Foreign):
        raise Stalled("FolderClaimed", verdict.message)
    await asyncio.to_thread(folder.load, entries)
    folder.claimed = verdict == claim.Ours(outdated=False)
    folder.held_before = not isinstance(verdict, claim.Absent)
    folder.is_open, folder.trouble = True, None
    return displaced


def taking_turns(due: Iterable[Folder]) -> list[Folder]:
    """Those that may be written at once: of unclaimed folders that overlap only the first.

    Its push brings the claim that keeps the others out.
    """
    chosen: list[Folder] = []
    for folder in sorted(due, key=lambda one: _stake(one, Title.NONE).seniority):
        place = folder.target.base_folder
        if folder.claimed or not any(
            overlap.overlap(place, other.target.base_folder) for other in chosen
        ):
            chosen.append(folder)
    return chosen


def outdone(
    holder: Folder, everyone: Iterable[tuple[Party, Folder]]
) -> list[tuple[Folder, Stalled]]:
    """Open folders that must be closed because `holder` has its claim in Git now."""
    mine = _stake(holder, Title.CLAIM)
    lost = []
    for _, other in everyone:
        theirs = _stake(other, Title.CLAIM if other.claimed else Title.NONE)
        overlaps = overlap.overlap(mine.folder, theirs.folder)
        if other is not holder and other.is_open and overlaps and theirs.yields_to(mine):
            lost.append((other, Stalled(OVERLAPPING, overlap.message(theirs, mine))))
    return lost


def holders(folder: Folder, everyone: Iterable[tuple[Party, Folder]]) -> list[Folder]:
    """Who may hold something against a folder; whoever the server refuses may not."""
    return [
        other
        for party, other in everyone
        if other.trouble is None
        and (folder.target.key in party.folders or not isinstance(party.trouble, Stalled))
    ]


async def _displaced(
    folder: Folder, branch: Branch, ours: Claim, title: Title, beside: Iterable[Folder]
) -> list[tuple[Folder, Stalled]]:
    """The neighbours that lose against `folder`; Stalled where it loses against one."""
    mine = _stake(folder, title)
    displaced = []
    for other in beside:
        if other is folder or not overlap.overlap(mine.folder, other.target.base_folder):
            continue
        claimed = other.claimed if other.is_open else await _claims(other, branch, ours.cluster)
        theirs = _stake(other, Title.CLAIM if claimed else Title.NONE)
        if mine.yields_to(theirs):
            raise Stalled(OVERLAPPING, overlap.message(mine, theirs))
        if other.is_open and theirs.yields_to(mine):
            displaced.append((other, Stalled(OVERLAPPING, overlap.message(theirs, mine))))
    return displaced


def _stake(folder: Folder, title: Title) -> Stake:
    target = folder.target
    return Stake(target.key, target.base_folder, target.created, title)


def _title(folder: Folder, verdict: Verdict) -> Title:
    match verdict:
        case claim.TakeOver(previous=previous) if previous.holder == folder.target.takeover:
            return Title.TAKEOVER
        case claim.Ours() | claim.TakeOver():
            return Title.CLAIM
        case _:
            return Title.NONE


async def _claims(folder: Folder, branch: Branch, cluster: str) -> bool:
    """Whether Git holds the claim of a folder that was not opened yet."""
    found = (await branch.entries(folder.target.base_folder)).get(folder.claim_path)
    if found is None:
        return False
    content = (await branch.blobs(folder.target, [found.blob]))[found.blob]
    try:
        there = claim.parse(content)
    except claim.ClaimUnreadable:
        return False
    return (there.cluster, there.destination) == (cluster, str(folder.target.key))


def _holder(content: bytes) -> Claim:
    try:
        return claim.parse(content)
    except claim.ClaimUnreadable as error:
        raise Stalled(
            "FolderClaimed", f"{error}; remove the file if the folder may be used"
        ) from error
