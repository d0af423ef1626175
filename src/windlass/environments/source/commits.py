"""Resolves which commits an Environment is made of, and reads files of them.

`CommitResolver` remembers per Environment, `SourceRepositories` talks to git.

| Desired | Requests to git |
|---|---|
| the newest commit of a branch | once per interval, for all who follow it |
| a certain commit | once: that it lies on its branch is not questioned while it runs |
| the newest commit, on request | at once |

A branch is resolved through the shared listing of refs; a commit that was named is believed only
if it lies on its branch. From then on only the commit is used. A server that cannot be reached
takes nothing away: the commits resolved last are still the desired ones, and the result carries
the error that hides newer ones. It is tried again after the interval, so that a server that does
not answer delays no reconcile twice. What a person has to mend (credentials, a branch that is
gone) is an error as it always was.

Files are read from a bare store and never written to a disk here: what is not a plain file is
refused by name before a byte of it is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from windlass.base.clock import Clock
from windlass.base.errors import Retryable, Stalled
from windlass.environments.render import manifests
from windlass.environments.source import template_files
from windlass.environments.spec import DesiredSource
from windlass.environments.status import SourceCommit
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
from windlass.objects.names import Key
from windlass.sources import credentials, proofs
from windlass.sources.credentials import CredentialRefs
from windlass.sources.proofs import BranchHistory
from windlass.sources.resolver import Resolver

STORE_BYTES = 2 << 30
MOST_FILE_BYTES = manifests.MOST_BYTES
CREDENTIALS_TTL_SECONDS = 60.0
"""How long credentials that were just used to find a commit are good to fetch it."""

FileSelector = Callable[[dict[str, Entry]], dict[str, Entry]]
"""Which files of a whole commit are needed."""


@dataclass(frozen=True, slots=True)
class _CachedCredentials:
    """Credentials, and when they were read."""

    credentials: Credentials
    at: float


@dataclass(frozen=True, slots=True)
class _AuthFailure:
    """That a server did not accept some credentials, and when."""

    message: str
    at: float


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """Some files of a commit; `contents` is None where `tree` is the one already known."""

    tree: str
    contents: dict[str, bytes] | None


class SourceRepositories:
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
        self._store_locks: dict[str, asyncio.Lock] = {}
        self._credentials: dict[tuple[str, str], _CachedCredentials] = {}
        self._auth_failures: dict[str, _AuthFailure] = {}

    async def resolve(
        self, namespace: str, wanted: DesiredSource, *, max_age_seconds: float
    ) -> SourceCommit:
        """The commit that is wanted of one repository of a Project in `namespace`."""
        remote, proof = await self._origin(namespace, wanted, max_age_seconds)
        here = credentials.store_name(remote, proof)
        self._raise_known_failure(here, max_age_seconds)
        try:
            return await self._resolve(remote, proof, wanted, max_age_seconds)
        except Stalled as error:
            if error.reason == "AuthFailed":
                self._auth_failures[here] = _AuthFailure(error.message, self._clock.monotonic())
            raise

    async def _resolve(
        self, remote: Remote, proof: Credentials, wanted: DesiredSource, max_age_seconds: float
    ) -> SourceCommit:
        branch = wanted.branch or await self._default_branch(remote, proof, max_age_seconds)
        ref = refs.branch_ref(branch)
        found = await self._resolver.resolve(remote, proof, ref, max_age_seconds=max_age_seconds)
        commit = found.commit
        if wanted.commit:
            commit = await self._ancestry.commit(remote, proof, ref, commit, wanted.commit)
        return SourceCommit(wanted.name, branch, commit, ref)

    async def read_files(
        self,
        namespace: str,
        wanted: DesiredSource,
        settled: SourceCommit,
        choice: FileSelector,
        *,
        known: str,
    ) -> SourceFiles:
        """The files of a settled commit that `choice` takes; they are not read if `known`."""
        remote, proof = await self._origin(namespace, wanted, CREDENTIALS_TTL_SECONDS)
        here = credentials.store_name(remote, proof)
        # A store serves one commit at a time.
        async with self._store_locks.setdefault(here, asyncio.Lock()):
            try:
                store = await self._store(here)
                commit = await store.fetch(Origin(remote, proof), settled.commit, ref=settled.ref)
                entries, tree = await asyncio.to_thread(_select_entries, store, commit, choice)
                if tree == known:
                    return SourceFiles(tree, None)
                await store.need([entry.blob for entry in entries.values()])
                return SourceFiles(tree, await asyncio.to_thread(_read_contents, store, entries))
            except GitError as error:
                if error.reason == "CommitUnreachable":
                    # A forced push may have taken it away since it was listed.
                    self._resolver.forget(remote, settled.commit)
                raise proofs.translate_error(error) from error

    async def _origin(
        self, namespace: str, wanted: DesiredSource, max_age_seconds: float
    ) -> tuple[Remote, Credentials]:
        try:
            remote = Remote.parse(wanted.repository_url)
        except RemoteRefused as error:
            raise Stalled("ConfigInvalid", f"source {wanted.name}: {error}") from error
        check_transport(remote, self._git.settings)
        return remote, await self._read_credentials(namespace, wanted.secret_name, max_age_seconds)

    async def _read_credentials(
        self, namespace: str, secret: str, max_age_seconds: float
    ) -> Credentials:
        """Who we are for a repository; a Secret is not read anew in every pass."""
        if not secret:
            return await credentials.read_credentials(self._api, namespace, CredentialRefs())
        now, known = self._clock.monotonic(), self._credentials.get((namespace, secret))
        if known is not None and now - known.at < max_age_seconds:
            return known.credentials
        self._credentials.pop((namespace, secret), None)
        found = await credentials.read_credentials(
            self._api, namespace, CredentialRefs(secret=secret)
        )
        self._credentials[namespace, secret] = _CachedCredentials(found, now)
        return found

    def _raise_known_failure(self, here: str, max_age_seconds: float) -> None:
        """A server that refused these very credentials is not asked with them all the time."""
        known = self._auth_failures.get(here)
        if known is None:
            return
        age = self._clock.monotonic() - known.at
        if age < proofs.STALLED_SECONDS and max_age_seconds > 0:
            raise Stalled("AuthFailed", known.message, after=proofs.STALLED_SECONDS - age)
        del self._auth_failures[here]

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


def _select_entries(
    store: CommitStore, commit: str, choice: FileSelector
) -> tuple[dict[str, Entry], str]:
    entries = choice(store.listing(commit))
    return entries, template_files.tree_digest(entries)


def _read_contents(store: CommitStore, entries: dict[str, Entry]) -> dict[str, bytes]:
    if sum(store.size(entry.blob) for entry in entries.values()) > MOST_FILE_BYTES:
        raise Stalled(
            "SourceTooLarge",
            f"the files are larger than {MOST_FILE_BYTES >> 20} MiB; name a smaller path",
        )
    return {name: store.read(entry.blob) for name, entry in entries.items()}


_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ResolvedCommits:
    """The commits that are wished; `trouble` keeps us from looking for newer ones."""

    sources: tuple[SourceCommit, ...]
    error: Retryable | None = None


@dataclass(frozen=True, slots=True)
class _KnownCommit:
    """What was settled last for a wish; `failed_at` is when git last could not be asked."""

    desired: DesiredSource
    namespace: str
    source: SourceCommit
    error: Retryable | None = None
    failed_at: float = 0.0


class CommitResolver:
    """The commits of all Environments, looked for every `poll_seconds`."""

    def __init__(self, sources: SourceRepositories, clock: Clock, *, poll_seconds: float) -> None:
        self._sources = sources
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._known: dict[Key, dict[str, _KnownCommit]] = {}

    async def resolve(
        self, key: Key, namespace: str, wishes: tuple[DesiredSource, ...], *, at_once: bool
    ) -> ResolvedCommits:
        """The commits that the Environment `key` wishes of a Project in `namespace`."""
        before = self._known.get(key, {})
        now = [
            await self._resolve_source(before.get(wish.name), namespace, wish, at_once=at_once)
            for wish in wishes
        ]
        self._known[key] = {known.desired.name: known for known in now}
        trouble = next((known.error for known in now if known.error is not None), None)
        return ResolvedCommits(tuple(known.source for known in now), trouble)

    def forget(self, key: Key) -> None:
        """The Environment is gone."""
        self._known.pop(key, None)

    async def _resolve_source(
        self, known: _KnownCommit | None, namespace: str, wish: DesiredSource, *, at_once: bool
    ) -> _KnownCommit:
        if known is None or (known.desired, known.namespace) != (wish, namespace):
            known = None
        elif self._is_current(known, at_once=at_once):
            return known
        age = 0.0 if at_once else self._poll_seconds
        try:
            found = await self._sources.resolve(namespace, wish, max_age_seconds=age)
        except Retryable as error:
            if known is None:
                raise
            _log.warning("newer commits are not known", source=wish.name, reason=error.reason)
            return _KnownCommit(wish, namespace, known.source, error, self._clock.monotonic())
        return _KnownCommit(wish, namespace, found)

    def _is_current(self, known: _KnownCommit, *, at_once: bool) -> bool:
        """Whether git need not be asked now."""
        if known.error is None:
            return not known.desired.follows_branch
        return not at_once and self._clock.monotonic() - known.failed_at < self._poll_seconds
