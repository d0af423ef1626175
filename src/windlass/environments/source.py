"""Settles which commits an Environment is made of, and reads files of them.

A branch is resolved through the listing that everybody shares; a commit that was named is
believed only if it lies on its branch. From then on only the commit is used. Files are
read from a bare store and never written to a disk here: what is no plain file is refused
by name before a byte of it is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from windlass.base.clock import Clock
from windlass.base.errors import Stalled
from windlass.environments import chosen_files
from windlass.environments.decide import manifests
from windlass.environments.decide.report import Source
from windlass.environments.decide.wish import SourceWish
from windlass.git.commit_store import CommitStore
from windlass.git.commit_store import RemoteSource as Origin
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError
from windlass.git.format import refs
from windlass.git.format.remote import Remote, RemoteRefused
from windlass.git.ls_remote import RefListings
from windlass.git.runner import Git, check_transport
from windlass.git.store import Entry
from windlass.kube.api import Api
from windlass.sources import credentials, proofs
from windlass.sources.credentials import CredentialRefs
from windlass.sources.proofs import BranchHistory
from windlass.sources.resolver import Resolver

STORE_BYTES = 2 << 30
MOST_FILE_BYTES = manifests.MOST_BYTES
BELIEVED_SECONDS = 60.0
"""How long credentials that were just used to find a commit are good to fetch it."""

Choice = Callable[[dict[str, Entry]], dict[str, Entry]]
"""Which files of a whole commit are needed."""


@dataclass(frozen=True, slots=True)
class _Proof:
    """Credentials, and when they were read."""

    credentials: Credentials
    at: float


@dataclass(frozen=True, slots=True)
class _Refused:
    """That a server did not accept some credentials, and when."""

    message: str
    at: float


@dataclass(frozen=True, slots=True)
class Files:
    """Some files of a commit; `contents` is None where `tree` is the one already known."""

    tree: str
    contents: dict[str, bytes] | None


class Sources:
    """Repositories of all Projects; `directory` is one that nobody else uses."""

    def __init__(
        self,
        api: Api,
        git: Git,
        listings: RefListings,
        resolver: Resolver,
        directory: Path,
        clock: Clock,
    ) -> None:
        self._api = api
        self._clock = clock
        self._git = git
        self._listings = listings
        self._resolver = resolver
        self._ancestry = BranchHistory(git, directory / "histories")
        self._directory = directory / "commits"
        self._stores: dict[str, CommitStore] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._proofs: dict[tuple[str, str], _Proof] = {}
        self._refused: dict[str, _Refused] = {}

    async def settle(self, namespace: str, wanted: SourceWish, *, max_age_seconds: float) -> Source:
        """The commit that is wanted of one repository of a Project in `namespace`."""
        remote, proof = await self._origin(namespace, wanted, max_age_seconds)
        here = credentials.store_name(remote, proof)
        self._tell_again(here, max_age_seconds)
        try:
            return await self._settled(remote, proof, wanted, max_age_seconds)
        except Stalled as error:
            if error.reason == "AuthFailed":
                self._refused[here] = _Refused(error.message, self._clock.monotonic())
            raise

    async def _settled(
        self, remote: Remote, proof: Credentials, wanted: SourceWish, max_age_seconds: float
    ) -> Source:
        branch = wanted.branch or await self._default_branch(remote, proof, max_age_seconds)
        ref = refs.branch_ref(branch)
        found = await self._resolver.resolve(remote, proof, ref, max_age_seconds=max_age_seconds)
        commit = found.commit
        if wanted.commit:
            commit = await self._ancestry.commit(remote, proof, ref, commit, wanted.commit)
        return Source(wanted.name, branch, commit, ref)

    async def files(
        self, namespace: str, wanted: SourceWish, settled: Source, choice: Choice, *, known: str
    ) -> Files:
        """The files of a settled commit that `choice` takes; they are not read if `known`."""
        remote, proof = await self._origin(namespace, wanted, BELIEVED_SECONDS)
        here = credentials.store_name(remote, proof)
        # A store serves one commit at a time.
        async with self._turns.setdefault(here, asyncio.Lock()):
            try:
                store = await self._store(here)
                commit = await store.fetch(Origin(remote, proof), settled.commit, ref=settled.ref)
                entries, tree = await asyncio.to_thread(_chosen, store, commit, choice)
                if tree == known:
                    return Files(tree, None)
                await store.need([entry.blob for entry in entries.values()])
                return Files(tree, await asyncio.to_thread(_contents, store, entries))
            except GitError as error:
                if error.reason == "CommitUnreachable":
                    # A forced push may have taken it away since it was listed.
                    self._resolver.forget(remote, settled.commit)
                raise proofs.translate_error(error) from error

    async def _origin(
        self, namespace: str, wanted: SourceWish, max_age_seconds: float
    ) -> tuple[Remote, Credentials]:
        try:
            remote = Remote.parse(wanted.repository_url)
        except RemoteRefused as error:
            raise Stalled("ConfigInvalid", f"source {wanted.name}: {error}") from error
        check_transport(remote, self._git.settings)
        return remote, await self._proof(namespace, wanted.secret_name, max_age_seconds)

    async def _proof(self, namespace: str, secret: str, max_age_seconds: float) -> Credentials:
        """Who we are for a repository; a Secret is not read anew in every pass."""
        if not secret:
            return await credentials.read_credentials(self._api, namespace, CredentialRefs())
        now, known = self._clock.monotonic(), self._proofs.get((namespace, secret))
        if known is not None and now - known.at < max_age_seconds:
            return known.credentials
        self._proofs.pop((namespace, secret), None)
        found = await credentials.read_credentials(
            self._api, namespace, CredentialRefs(secret=secret)
        )
        self._proofs[namespace, secret] = _Proof(found, now)
        return found

    def _tell_again(self, here: str, max_age_seconds: float) -> None:
        """A server that refused these very credentials is not asked with them all the time."""
        known = self._refused.get(here)
        if known is None:
            return
        age = self._clock.monotonic() - known.at
        if age < proofs.STALLED_SECONDS and max_age_seconds > 0:
            raise Stalled("AuthFailed", known.message, after=proofs.STALLED_SECONDS - age)
        del self._refused[here]

    async def _default_branch(
        self, remote: Remote, proof: Credentials, max_age_seconds: float
    ) -> str:
        try:
            listing = await self._listings.get(remote, proof, max_age_seconds=max_age_seconds)
        except GitError as error:
            raise proofs.translate_error(error) from error
        if not listing.default_branch:
            raise proofs.resolution_error(
                "RefNotFound", "the repository has no default branch; name one in the Project"
            )
        return listing.default_branch

    async def _store(self, name: str) -> CommitStore:
        if name not in self._stores:
            self._stores[name] = await asyncio.to_thread(
                CommitStore.open, self._git, self._directory / name, cap_bytes=STORE_BYTES
            )
        return self._stores[name]


def _chosen(store: CommitStore, commit: str, choice: Choice) -> tuple[dict[str, Entry], str]:
    entries = choice(store.listing(commit))
    return entries, chosen_files.tree(entries)


def _contents(store: CommitStore, entries: dict[str, Entry]) -> dict[str, bytes]:
    if sum(store.size(entry.blob) for entry in entries.values()) > MOST_FILE_BYTES:
        raise Stalled(
            "SourceTooLarge",
            f"the files are larger than {MOST_FILE_BYTES >> 20} MiB; name a smaller path",
        )
    return {name: store.read(entry.blob) for name, entry in entries.items()}
