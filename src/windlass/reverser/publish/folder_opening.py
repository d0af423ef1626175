"""Opens a destination's folder: checks its claim and loads its files from the branch.

The branch worker opens a folder before it writes to it, and again whenever another writer moved
the branch. The claim in Git decides; a claim that cannot be parsed is never overwritten. Where
folders of several destinations overlap, `folder_claim` decides which one keeps them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from windlass.base.errors import Stalled
from windlass.reverser.publish import folder_claim
from windlass.reverser.publish.folder import Folder
from windlass.reverser.publish.folder_claim import (
    ClaimStrength,
    ClaimVerdict,
    FolderClaim,
    FolderContender,
)
from windlass.reverser.publish.remote_branch import RemoteBranch
from windlass.reverser.publish.writer_group import WriterGroup

OVERLAPPING = "OverlappingBaseFolder"


async def open_folder(
    folder: Folder,
    branch: RemoteBranch,
    ours: FolderClaim,
    *,
    destinations: frozenset[str],
    neighbors: Iterable[Folder],
) -> list[tuple[Folder, Stalled]]:
    """Load a folder from the branch; raises Stalled if another destination keeps it.

    `neighbors` are the folders that may conflict with this one. Returns those that must be
    closed because this one keeps the overlap, each with its error.
    """
    entries = await branch.entries(folder.target.base_folder)
    claim_entry = entries.get(folder.claim_path)
    holder = None
    if claim_entry is not None:
        blobs = await branch.blobs(folder.target, [claim_entry.blob])
        holder = _parse_holder(blobs[claim_entry.blob])
    verdict = folder_claim.judge_claim(
        holder, ours, existing_destinations=destinations, takeover=folder.target.takeover
    )
    displaced = await _resolve_overlaps(
        folder, branch, ours, _claim_strength(folder, verdict), neighbors
    )
    if isinstance(verdict, folder_claim.ForeignClaim):
        raise Stalled("FolderClaimed", verdict.message)
    await asyncio.to_thread(folder.load, entries)
    folder.is_claimed = verdict == folder_claim.OwnClaim(outdated=False)
    folder.was_claimed = not isinstance(verdict, folder_claim.Unclaimed)
    folder.is_open, folder.error = True, None
    return displaced


def select_non_overlapping(due: Iterable[Folder]) -> list[Folder]:
    """The folders that one push may write: of unclaimed ones that overlap only the oldest.

    Its push adds the claim that keeps the others out.
    """
    chosen: list[Folder] = []
    for folder in sorted(
        due, key=lambda candidate: _contender(candidate, ClaimStrength.NONE).seniority
    ):
        path = folder.target.base_folder
        if folder.is_claimed or not any(
            folder_claim.folders_overlap(path, other.target.base_folder) for other in chosen
        ):
            chosen.append(folder)
    return chosen


def displaced_by(
    holder: Folder, folders: Iterable[tuple[WriterGroup, Folder]]
) -> list[tuple[Folder, Stalled]]:
    """Open folders that must be closed because `holder` has its claim in Git now."""
    mine = _contender(holder, ClaimStrength.CLAIM)
    displaced = []
    for _, other in folders:
        theirs = _contender(other, ClaimStrength.CLAIM if other.is_claimed else ClaimStrength.NONE)
        overlaps = folder_claim.folders_overlap(mine.folder, theirs.folder)
        if other is not holder and other.is_open and overlaps and theirs.loses_to(mine):
            displaced.append(
                (other, Stalled(OVERLAPPING, folder_claim.overlap_message(theirs, mine)))
            )
    return displaced


def possible_holders(folder: Folder, folders: Iterable[tuple[WriterGroup, Folder]]) -> list[Folder]:
    """The folders that may conflict with `folder`.

    Not those with an error, nor those of another group that the server refuses: they cannot
    push a claim.
    """
    return [
        other
        for group, other in folders
        if not other.is_refused
        and (folder.target.key in group.folders or not isinstance(group.error, Stalled))
    ]


async def _resolve_overlaps(
    folder: Folder,
    branch: RemoteBranch,
    ours: FolderClaim,
    strength: ClaimStrength,
    neighbors: Iterable[Folder],
) -> list[tuple[Folder, Stalled]]:
    """The neighbors that lose against `folder`; raises Stalled if it loses against one."""
    mine = _contender(folder, strength)
    displaced = []
    for other in neighbors:
        if other is folder or not folder_claim.folders_overlap(
            mine.folder, other.target.base_folder
        ):
            continue
        claimed = (
            other.is_claimed if other.is_open else await _has_claim(other, branch, ours.cluster)
        )
        theirs = _contender(other, ClaimStrength.CLAIM if claimed else ClaimStrength.NONE)
        if mine.loses_to(theirs):
            raise Stalled(OVERLAPPING, folder_claim.overlap_message(mine, theirs))
        if other.is_open and theirs.loses_to(mine):
            displaced.append(
                (other, Stalled(OVERLAPPING, folder_claim.overlap_message(theirs, mine)))
            )
    return displaced


def _contender(folder: Folder, strength: ClaimStrength) -> FolderContender:
    target = folder.target
    return FolderContender(target.key, target.base_folder, target.created, strength)


def _claim_strength(folder: Folder, verdict: ClaimVerdict) -> ClaimStrength:
    match verdict:
        case folder_claim.ClaimTakeover(previous=previous) if (
            previous.holder == folder.target.takeover
        ):
            return ClaimStrength.TAKEOVER
        case folder_claim.OwnClaim() | folder_claim.ClaimTakeover():
            return ClaimStrength.CLAIM
        case _:
            return ClaimStrength.NONE


async def _has_claim(folder: Folder, branch: RemoteBranch, cluster: str) -> bool:
    """Whether Git has the claim of a folder that is not open."""
    claim_entry = (await branch.entries(folder.target.base_folder)).get(folder.claim_path)
    if claim_entry is None:
        return False
    content = (await branch.blobs(folder.target, [claim_entry.blob]))[claim_entry.blob]
    try:
        claim = folder_claim.parse_claim(content)
    except folder_claim.ClaimUnreadable:
        return False
    return (claim.cluster, claim.destination) == (cluster, str(folder.target.key))


def _parse_holder(content: bytes) -> FolderClaim:
    try:
        return folder_claim.parse_claim(content)
    except folder_claim.ClaimUnreadable as error:
        raise Stalled(
            "FolderClaimed", f"{error}; delete the file if the folder may be used"
        ) from error
