"""Opens a destination's folder: whose is it, and what does it hold?

A folder is opened before anything is written to it, and again whenever the branch moved
without us. The claim in it decides; a claim that cannot be read is never overwritten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from windlass.base.errors import Stalled
from windlass.reverser.branch import Branch
from windlass.reverser.decide import claim
from windlass.reverser.decide.claim import Claim
from windlass.reverser.folder import Folder


async def load(
    folder: Folder,
    branch: Branch,
    ours: Claim,
    *,
    destinations: frozenset[str],
    beside: Iterable[Folder],
) -> None:
    """Take over what the branch holds; Stalled if the folder belongs to somebody else."""
    entries = await branch.entries(folder.target.base_folder)
    found = entries.get(folder.claim_path)
    holder = None
    if found is not None:
        blobs = await branch.blobs(folder.target, [found.blob])
        holder = _holder(blobs[found.blob])
    verdict = claim.verdict(
        holder, ours, existing_destinations=destinations, takeover=folder.target.takeover
    )
    if isinstance(verdict, claim.Foreign):
        raise Stalled("FolderClaimed", verdict.message)
    folder.check_beside(beside)
    await asyncio.to_thread(folder.load, entries)
    folder.claimed = verdict == claim.Ours(outdated=False)
    folder.held_before = not isinstance(verdict, claim.Absent)
    folder.is_open, folder.trouble = True, None


def _holder(content: bytes) -> Claim:
    try:
        return claim.parse(content)
    except claim.ClaimUnreadable as error:
        raise Stalled(
            "FolderClaimed", f"{error}; remove the file if the folder may be used"
        ) from error
