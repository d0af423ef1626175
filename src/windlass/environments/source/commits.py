"""Resolves the commits that an Environment is made of, and reads files of them.

The environment reconciler calls `CommitResolver` in its step `source`: it remembers the commits
of each Environment. `SourceRepositories` runs git; the renderer and the Project reconciler call
it, too.

| Desired | Requests to git |
|---|---|
| the newest commit of a branch | once per interval, for all who follow it |
| a certain commit | once: that it lies on its branch is not checked again while it runs |
| the newest commit, on request | at once |

A branch is resolved through the shared listing of refs; a commit that the spec names is accepted
only if it lies on its branch. From then on only the commit is used. While a server cannot be
reached, the commits resolved last stay the desired ones, and the result carries the error that
hides newer ones. It is tried again after the interval, so that a server that does not answer
delays no reconcile twice. What a person has to fix (credentials, a missing branch) is raised.

Files are read from a bare store and never checked out: an entry that is not a plain file is
refused by its path before a byte of it is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from windlass.base.clock import Clock
from windlass.base.errors import Pending, Retryable, Stalled
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
from windlass.git.runner import check_transport
from windlass.git.store import Entry
from windlass.kube.api import Api
from windlass.objects.names import Key
from windlass.runtime.pending_calls import PendingCalls
from windlass.sources import credentials, proofs
from windlass.sources.credentials import CredentialRefs
from windlass.sources.git_service import GitService
from windlass.sources.proofs import BranchHistory
from windlass.sources.resolver import Resolver

STORE_BYTES = 2 << 30
"""Disk space that the bare store of one remote may take."""

MOST_FILE_BYTES = manifests.MOST_BYTES
RENDER = "render"
"""The pending call that fetches and renders a resolved commit."""

CREDENTIALS_TTL_SECONDS = 60.0
"""How long credentials that just resolved a commit may be used to fetch it."""

FileSelector = Callable[[dict[str, Entry]], dict[str, Entry]]
"""Picks the entries that are needed from the listing of a whole commit."""


@dataclass(frozen=True, slots=True)
class _CachedCredentials:
    """Credentials as read from a Secret."""

    credentials: Credentials
    at: float  # monotonic time of the read


@dataclass(frozen=True, slots=True)
class _AuthFailure:
    """A server's refusal of credentials."""

    message: str
    at: float  # monotonic time of the refusal


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The selected files of a commit."""

    tree: str  # digest of their paths and contents
    contents: dict[str, bytes] | None  # by path; None where the caller knows `tree` already


class SourceRepositories:
    """Repositories of all Projects; `directory` belongs to this object alone."""

    def __init__(
        self,
        api: Api,
        service: GitService,
        resolver: Resolver,
        directory: Path,
        clock: Clock,
    ) -> None:
        self._api = api
        self._clock = clock
        self._git = service.git
        self._listings = service.listings
        self._listings.expect("environments", self._expected_refs)
        self._resolver = resolver
        self._ancestry = BranchHistory(service.git, directory / "histories")
        self._directory = directory / "commits"
        # Open stores and their locks by store name, which stands for a remote with one identity;
        # they are never dropped, so their number grows with that of the repositories.
        self._stores: dict[str, CommitStore] = {}
        self._store_locks: dict[str, asyncio.Lock] = {}
        # Credentials read last, by namespace and name of their Secret.
        self._credentials: dict[tuple[str, str], _CachedCredentials] = {}
        # Repositories that were resolved, by fetch key.
        self._repositories: set[str] = set()
        # Refused credentials by store name, until they are tried again.
        self._auth_failures: dict[str, _AuthFailure] = {}

    async def resolve(
        self, namespace: str, desired: DesiredSource, *, max_age_seconds: float
    ) -> SourceCommit:
        """The desired commit of one repository of a Project in `namespace`."""
        remote, login = await self._origin(namespace, desired, max_age_seconds)
        self._repositories.add(remote.fetch_key)
        store_name = credentials.store_name(remote, login)
        self._raise_known_failure(store_name, max_age_seconds)
        try:
            return await self._resolve(remote, login, desired, max_age_seconds)
        except Stalled as error:
            if error.reason == "AuthFailed":
                self._auth_failures[store_name] = _AuthFailure(
                    error.message, self._clock.monotonic()
                )
            raise

    async def _resolve(
        self, remote: Remote, login: Credentials, desired: DesiredSource, max_age_seconds: float
    ) -> SourceCommit:
        branch = desired.branch or await self._default_branch(remote, login, max_age_seconds)
        ref = refs.branch_ref(branch)
        resolved = await self._resolver.resolve(remote, login, ref, max_age_seconds=max_age_seconds)
        commit = resolved.commit
        if desired.commit:
            commit = await self._ancestry.commit(remote, login, ref, commit, desired.commit)
        return SourceCommit(desired.name, branch, commit, ref)

    async def read_files(
        self,
        namespace: str,
        desired: DesiredSource,
        resolved: SourceCommit,
        select: FileSelector,
        *,
        known_tree: str,
    ) -> SourceFiles:
        """The files of a resolved commit that `select` picks.

        Contents are not read where their digest is `known_tree`.
        """
        remote, login = await self._origin(namespace, desired, CREDENTIALS_TTL_SECONDS)
        store_name = credentials.store_name(remote, login)
        # A store serves one commit at a time.
        async with self._store_locks.setdefault(store_name, asyncio.Lock()):
            try:
                store = await self._store(store_name)
                commit = await store.fetch(Origin(remote, login), resolved.commit, ref=resolved.ref)
                entries, tree = await asyncio.to_thread(_select_entries, store, commit, select)
                if tree == known_tree:
                    return SourceFiles(tree, None)
                await store.need([entry.blob for entry in entries.values()])
                return SourceFiles(tree, await asyncio.to_thread(_read_contents, store, entries))
            except GitError as error:
                if error.reason == "CommitUnreachable":
                    # A forced push may have taken it away since it was listed.
                    self._resolver.forget(remote, resolved.commit)
                raise proofs.translate_error(error) from error

    def _expected_refs(self, remote: Remote) -> frozenset[str]:
        """All branches of a Project's repository, so that one listing serves all Environments."""
        return refs.EVERY_BRANCH if remote.fetch_key in self._repositories else frozenset()

    async def _origin(
        self, namespace: str, desired: DesiredSource, max_age_seconds: float
    ) -> tuple[Remote, Credentials]:
        try:
            remote = Remote.parse(desired.repository_url)
        except RemoteRefused as error:
            raise Stalled("ConfigInvalid", f"source {desired.name}: {error}") from error
        check_transport(remote, self._git.settings)
        return remote, await self._read_credentials(namespace, desired.secret_name, max_age_seconds)

    async def _read_credentials(
        self, namespace: str, secret: str, max_age_seconds: float
    ) -> Credentials:
        """Credentials of a repository; a Secret is not read again in every reconcile."""
        if not secret:
            return await credentials.read_credentials(self._api, namespace, CredentialRefs())
        now, cached = self._clock.monotonic(), self._credentials.get((namespace, secret))
        if cached is not None and now - cached.at < max_age_seconds:
            return cached.credentials
        self._credentials.pop((namespace, secret), None)
        read = await credentials.read_credentials(
            self._api, namespace, CredentialRefs(secret=secret)
        )
        self._credentials[namespace, secret] = _CachedCredentials(read, now)
        return read

    def _raise_known_failure(self, store_name: str, max_age_seconds: float) -> None:
        """Raise a recent refusal of the same credentials instead of sending them again.

        A request for the newest commit (`max_age_seconds` is 0) always tries anew.
        """
        failure = self._auth_failures.get(store_name)
        if failure is None:
            return
        age = self._clock.monotonic() - failure.at
        if age < proofs.STALLED_SECONDS and max_age_seconds > 0:
            raise Stalled("AuthFailed", failure.message, after=proofs.STALLED_SECONDS - age)
        del self._auth_failures[store_name]

    async def _default_branch(
        self, remote: Remote, login: Credentials, max_age_seconds: float
    ) -> str:
        try:
            listing = await self._listings.get(remote, login, max_age_seconds=max_age_seconds)
        except GitError as error:
            raise proofs.translate_error(error) from error
        if not listing.default_branch:
            raise proofs.resolution_error(
                "RefNotFound", "the repository has no default branch; set branch in the Project"
            )
        return listing.default_branch

    async def _store(self, name: str) -> CommitStore:
        if name not in self._stores:
            self._stores[name] = await asyncio.to_thread(
                CommitStore.open, self._git, self._directory / name, cap_bytes=STORE_BYTES
            )
        return self._stores[name]


def _select_entries(
    store: CommitStore, commit: str, select: FileSelector
) -> tuple[dict[str, Entry], str]:
    entries = select(store.listing(commit))
    return entries, template_files.tree_digest(entries)


def _read_contents(store: CommitStore, entries: dict[str, Entry]) -> dict[str, bytes]:
    if sum(store.size(entry.blob) for entry in entries.values()) > MOST_FILE_BYTES:
        raise Stalled(
            "SourceTooLarge",
            f"the files are larger than {MOST_FILE_BYTES >> 20} MiB; use a smaller path",
        )
    return {name: store.read(entry.blob) for name, entry in entries.items()}


_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ResolvedCommits:
    """The desired commits of an Environment."""

    sources: tuple[SourceCommit, ...]
    error: Retryable | None = None  # why newer commits could not be resolved


@dataclass(frozen=True, slots=True)
class _KnownCommit:
    """The commit resolved last for one source of an Environment."""

    desired: DesiredSource
    namespace: str  # of the Project
    source: SourceCommit
    error: Retryable | None = None  # of the last attempt; None if it succeeded
    failed_at: float = 0.0  # monotonic time of that error


class CommitResolver:
    """Resolves the commits of all Environments, each branch once per `poll_seconds`."""

    def __init__(
        self,
        sources: SourceRepositories,
        calls: PendingCalls,
        clock: Clock,
        *,
        poll_seconds: float,
    ) -> None:
        self._sources = sources
        self._calls = calls
        self._clock = clock
        self._poll_seconds = poll_seconds
        # By Environment, then by name of the source; until `forget`.
        self._known: dict[Key, dict[str, _KnownCommit]] = {}

    async def resolve(
        self, key: Key, namespace: str, sources: tuple[DesiredSource, ...], *, at_once: bool
    ) -> ResolvedCommits:
        """The commits of the Environment `key` whose Project lies in `namespace`."""
        previous = self._known.get(key, {})
        resolved = [
            await self._resolve_source(
                key, previous.get(source.name), namespace, source, at_once=at_once
            )
            for source in sources
        ]
        self._known[key] = {commit.desired.name: commit for commit in resolved}
        error = next((commit.error for commit in resolved if commit.error is not None), None)
        return ResolvedCommits(tuple(commit.source for commit in resolved), error)

    def forget(self, key: Key) -> None:
        """Drop the commits of an Environment that is gone, or that shall be resolved anew."""
        self._known.pop(key, None)

    def is_resolved(self, key: Key) -> bool:
        """Whether the commits of an Environment were resolved, and not dropped since."""
        return key in self._known

    async def _resolve_source(
        self,
        key: Key,
        known: _KnownCommit | None,
        namespace: str,
        desired: DesiredSource,
        *,
        at_once: bool,
    ) -> _KnownCommit:
        if known is None or (known.desired, known.namespace) != (desired, namespace):
            known = None
        elif self._is_current(key, known, at_once=at_once):
            return known
        max_age_seconds = 0.0 if at_once else self._poll_seconds
        try:
            resolved = await self._calls.result(
                key,
                f"source {desired.name}",
                (namespace, desired, at_once),
                lambda: self._sources.resolve(namespace, desired, max_age_seconds=max_age_seconds),
            )
        except Pending:
            if known is None or at_once:
                raise  # nothing to go on with, or a user wants the newest
            return known
        except Retryable as error:
            if known is None:
                raise  # no earlier commit to go on with
            _log.warning(
                "cannot resolve newer commits, keeping the current ones",
                source=desired.name,
                reason=error.reason,
            )
            return _KnownCommit(desired, namespace, known.source, error, self._clock.monotonic())
        return _KnownCommit(desired, namespace, resolved)

    def _is_current(self, key: Key, known: _KnownCommit, *, at_once: bool) -> bool:
        """Whether the known commit is used without a request to git."""
        if not at_once and self._calls.is_known(key, RENDER):
            # It is being rendered. Newer commits wait, else a branch that moves faster than it is
            # rendered would never be deployed.
            return True
        if known.error is None:
            return not known.desired.follows_branch
        return not at_once and self._clock.monotonic() - known.failed_at < self._poll_seconds
