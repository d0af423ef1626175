"""A store with helpers to commit and push to a test server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from windlass.git import push
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.git.format.objects import Person
from windlass.git.format.remote import Remote
from windlass.git.push import write_commit
from windlass.git.runner import Git
from windlass.git.store import Store
from windlass.git.trees import edit_tree

BOT = Person("windlass", "noreply@windlass.invalid")


@dataclass
class GitWorkspace:
    """A store with its git, remote and credentials."""

    git: Git
    store: Store
    remote: Remote
    credentials: Credentials = ANONYMOUS

    @classmethod
    def at(
        cls, directory: Path, git: Git, remote: Remote, credentials: Credentials = ANONYMOUS
    ) -> GitWorkspace:
        return cls(git, Store.open(directory), remote, credentials)

    async def fetch(self, branch: str = "main", *, depth: int = 1, blobless: bool = True) -> str:
        return await self.store.fetch(
            self.git,
            self.remote,
            self.credentials,
            f"refs/heads/{branch}",
            depth=depth,
            blobless=blobless,
        )

    def commit(self, parent: str | None, edits: Mapping[str, bytes | str | None]) -> str:
        base = self.store.tree_of(parent) if parent is not None else None
        when = datetime(2024, 1, 1, tzinfo=UTC)
        return write_commit(
            self.store,
            tree=edit_tree(self.store, base, edits).tree,
            parents=[parent] if parent is not None else [],
            author=BOT,
            author_time=when,
            committer=BOT,
            commit_time=when,
            message="a change",
        )

    async def push(self, commit: str, expected: str | None, branch: str = "main") -> push.Outcome:
        return await push.push(
            self.git,
            self.store,
            self.remote,
            self.credentials,
            branch=branch,
            commit=commit,
            expected=expected,
        )
