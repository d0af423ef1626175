"""Fetches several commits into one commit store, in children that failpoints may kill.

Each line on stdin is a request in JSON: the arguments of the run, what the child's failpoint
variables are set to, and the file for what it prints, which is the ids of the last
commit's blobs as they were read back. The answer is its exit code. Everything is imported
once, so a child starts at once.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from tests.support.git.http_server import git_settings
from windlass.base import failpoint
from windlass.git.commit_store import CommitStore, RemoteSource
from windlass.git.format import objects
from windlass.git.format.remote import Remote
from windlass.git.runner import Git


async def fetch_commits(url: str, directory: Path, run: Path, cap: int, commits: list[str]) -> str:
    """One commit after the other, each with all its blobs, each kept."""
    store = CommitStore.open(Git(git_settings(run)), directory, cap_bytes=cap)
    for commit in commits:
        await store.fetch(RemoteSource(Remote.parse(url)), commit)
        await store.need(entry.blob for entry in store.listing(commit).values())
        store.keep(commit)
    listing = store.listing(commits[-1])
    blobs = {path: objects.blob_id(store.read(entry.blob)) for path, entry in listing.items()}
    return f"{sorted(blobs.items())} {store.targets()}\n"


def _run_child(request: dict[str, Any]) -> NoReturn:
    output, code = Path(request["output"]), 1
    url, directory, run, cap, *commits = request["arguments"]
    os.environ.update(request["environment"])
    # It asks the environment once, when it is loaded.
    importlib.reload(failpoint)
    try:
        output.write_text(
            asyncio.run(fetch_commits(url, Path(directory), Path(run), int(cap), commits))
        )
        code = 0
    except BaseException:
        output.write_text(traceback.format_exc())
    finally:
        os._exit(code)


def main() -> None:
    """Serve until stdin ends."""
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _run_child(request)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
