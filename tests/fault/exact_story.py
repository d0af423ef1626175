"""A process that brings several commits into one exact store, to be killed on the way.

Arguments: the remote's URL, the store, a run directory, the cap in bytes, the commits. It
prints the ids of the last commit's blobs as they were read back.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.gitserver import git_settings
from windlass.git.child import Git
from windlass.git.exact import ExactStore, Source
from windlass.git.format import objects
from windlass.git.format.remote import Remote


async def tell(url: str, directory: Path, run: Path, cap: int, commits: list[str]) -> None:
    """One commit after the other, each with all its blobs, each kept."""
    store = ExactStore.open(Git(git_settings(run)), directory, cap_bytes=cap)
    for commit in commits:
        await store.fetch(Source(Remote.parse(url)), commit)
        await store.need(entry.blob for entry in store.listing(commit).values())
        store.keep(commit)
    found = store.listing(commits[-1])
    read = {path: objects.blob_id(store.read(entry.blob)) for path, entry in found.items()}
    sys.stdout.write(f"{sorted(read.items())} {store.targets()}\n")


if __name__ == "__main__":
    url, directory, run, cap, *commits = sys.argv[1:]
    asyncio.run(tell(url, Path(directory), Path(run), int(cap), commits))
