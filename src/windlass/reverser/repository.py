"""Reconciles GitRepoConfig: can the remote be reached, and which branches does it have?

One `ls-remote` serves every config of the same remote and credential (REP-1). A missing
branch is reported but blocks no destination on another branch (REP-2). What was read here
(credentials, listing) is what destinations work with; nothing is read twice.

The remote is queried again at an interval, when the spec or a credential changed, and on
request. Destinations never continue with an address or a credential that the object no longer
names, whether or not the new one works.

Secrets, host keys and CAs are read by name, from the namespace of the object that names them,
never listed and never watched (REF-6, LIF-5). So only the next reconcile notices a repair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass.api.kinds.gitrepoconfig import GitRepoConfig, GitRepoConfigSpec
from windlass.api.schema.object_references import CertificateRef, KnownHostsRef
from windlass.base.clock import Clock
from windlass.base.errors import Retryable, Stalled, WindlassError
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError
from windlass.git.format.refs import RefListing
from windlass.git.format.remote import Remote, RemoteRefused
from windlass.git.ls_remote import RefListings
from windlass.git.runner import Git, check_transport
from windlass.kube.api import Api
from windlass.objects.names import Key
from windlass.reverser import status as reverser_status
from windlass.reverser.object_cache import ReverserCache
from windlass.runtime import status
from windlass.runtime.outcome import READY, Outcome
from windlass.sources import credentials
from windlass.sources.credentials import CredentialRefs, KeyRef, SecretKeyMissing, SecretMissing

SECRET_RETRY_SECONDS = 3.0


async def read_credentials(api: Api, repository: GitRepoConfig) -> Credentials:
    """The credentials of a repository; Stalled says which object or key is missing."""
    try:
        return await credentials.read_credentials(
            api, repository.metadata.namespace, credential_refs(repository.spec)
        )
    except SecretKeyMissing as error:
        raise Stalled("SecretMalformed", error.message, after=SECRET_RETRY_SECONDS) from error
    except SecretMissing as error:
        # An API server that just started refuses for a moment; that takes nothing away.
        decision = Retryable if error.is_refused else Stalled
        raise decision("SecretNotFound", error.message, after=SECRET_RETRY_SECONDS) from error


def credential_refs(spec: GitRepoConfigSpec) -> CredentialRefs:
    """Where the credentials of a repository are."""
    return CredentialRefs(
        secret=spec.secret_ref.name if spec.secret_ref is not None else "",
        known_hosts=_key_ref(spec.known_hosts_ref),
        ca=_key_ref(spec.ca_ref),
        verifies_host_keys=spec.host_key_verification == "Strict",
        prefers_own_hosts=True,
    )


def _key_ref(ref: KnownHostsRef | CertificateRef | None) -> KeyRef | None:
    return KeyRef(ref.name, ref.key, ref.kind) if ref is not None else None


_UNREACHABLE_RETRY_SECONDS = 3.0
_DEBOUNCE_SECONDS = 0.02
"""Who wants a fresh answer does not take one that was asked for before."""


@dataclass(frozen=True, slots=True)
class ReachableRepository:
    """A repository that can be worked with; `listing` is the newest answer of its remote."""

    remote: Remote
    credentials: Credentials
    listing: RefListing


@dataclass(frozen=True, slots=True)
class _CheckTrigger:
    """Why the remote is asked: another one of these wants a fresh answer."""

    generation: int
    fingerprint: str
    request: str | None


@dataclass(frozen=True, slots=True)
class _FailedCheck:
    """Why the remote could not be asked, so that it is not asked again at once."""

    trigger: _CheckTrigger
    error: WindlassError
    until: float

    def still_applies(self, occasion: _CheckTrigger, now: float) -> bool:
        """Whether asking again would only repeat it."""
        return self.trigger == occasion and now < self.until


class RepositoryReconciler:
    """Every GitRepoConfig, and what its remote last said."""

    def __init__(
        self,
        api: Api,
        cache: ReverserCache,
        git: Git,
        listings: RefListings,
        clock: Clock,
        *,
        check_seconds: float,
        on_change: Callable[[Key], None],
    ) -> None:
        self._api = api
        self._cache = cache
        self._git = git
        self._listings = listings
        self._clock = clock
        self._check_seconds = check_seconds
        self._on_change = on_change
        self._reachable: dict[Key, ReachableRepository] = {}
        self._failures: dict[Key, _FailedCheck] = {}
        self._triggers: dict[Key, _CheckTrigger] = {}
        self._reported: set[Key] = set()
        self._checked: set[Key] = set()

    def reachable(self, key: Key) -> ReachableRepository | None:
        return self._reachable.get(key)

    def is_unchecked(self, key: Key) -> bool:
        """Whether a repository is there that was not looked at since this process began."""
        return key not in self._checked and self._cache.repositories.get(key) is not None

    async def reconcile(self, key: Key) -> Outcome:
        """One pass over one GitRepoConfig."""
        if self._is_new(key):
            return reverser_status.repository_checking(after=_DEBOUNCE_SECONDS)
        try:
            return await self._check(key)
        finally:
            if key not in self._checked:
                self._checked.add(key)
                self._on_change(key)

    def _is_new(self, key: Key) -> bool:
        """Whether nobody ever reported on it: a remote may take long to answer."""
        found = self._cache.repository(key)
        if found is None or key in self._reported:
            return False
        self._reported.add(key)
        return found.status.condition(READY) is None

    async def _check(self, key: Key) -> Outcome:
        raw = self._cache.repositories.get(key)
        if raw is None:
            self._forget(key)
            return Outcome.gone()
        try:
            repository = GitRepoConfig.decode(raw)
            remote = self._remote(repository)
            found = await read_credentials(self._api, repository)
        except Stalled:
            # Whoever takes a Secret or an address away means it: nothing is written with it.
            self._forget(key)
            raise
        try:
            listing = await self._listing(key, repository, remote, found)
        except WindlassError as error:
            known = self._reachable.get(key)
            if known is not None and (known.remote, known.credentials) != (remote, found):
                self._forget_reachable(key)
            return reverser_status.repository_unreachable(
                error, remote.display, after=_UNREACHABLE_RETRY_SECONDS
            )
        self._remember(key, ReachableRepository(remote, found, listing))
        return reverser_status.repository_reachable(
            listing.refs,
            repository.spec.allowed_branches,
            creating=self._branches_to_create(key),
            remote=remote.identity,
            verified=found.host_key_verification or remote.scheme != "ssh",
            after=self._check_seconds or None,
        )

    def _remote(self, repository: GitRepoConfig) -> Remote:
        try:
            remote = Remote.parse(repository.spec.repo_url)
        except RemoteRefused as error:
            raise Stalled("SpecInvalid", f"spec.repoUrl: {error}") from error
        check_transport(remote, self._git.settings)
        return remote

    async def _listing(
        self, key: Key, repository: GitRepoConfig, remote: Remote, found: Credentials
    ) -> RefListing:
        """The remote's refs; a failure is not repeated while nothing changed."""
        request = status.newest_request(repository.metadata.annotations)
        occasion = _CheckTrigger(repository.metadata.generation, found.fingerprint, request)
        now, failure = self._clock.monotonic(), self._failures.get(key)
        if failure is not None and failure.still_applies(occasion, now):
            raise failure.error
        fresh = self._triggers.get(key, occasion) != occasion
        self._triggers[key] = occasion
        age = 0.0 if fresh else max(0.0, self._check_seconds - 1.0)
        try:
            listing = await self._listings.get(
                remote,
                found,
                max_age_seconds=age,
                gather_seconds=_DEBOUNCE_SECONDS if fresh else 0.0,
            )
        except GitError as error:
            translated = _translate_git_error(error)
            until = now + min(self._check_seconds or 60.0, 15.0)
            self._failures[key] = _FailedCheck(occasion, translated, until)
            raise translated from error
        self._failures.pop(key, None)
        return listing

    def _branches_to_create(self, key: Key) -> frozenset[str]:
        """Branches that a destination of this repository will create."""
        found = (self._cache.destination(other) for other in self._cache.destinations_for(key))
        return frozenset(
            one.spec.branch for one in found if one is not None and one.spec.create_branch
        )

    def _remember(self, key: Key, known: ReachableRepository) -> None:
        before, self._reachable[key] = self._reachable.get(key), known
        # An equal answer is news too: the branch may be back where it was before our push.
        if before is None or before.listing is not known.listing or before != known:
            self._on_change(key)

    def _forget(self, key: Key) -> None:
        self._reported.discard(key)
        self._failures.pop(key, None)
        self._triggers.pop(key, None)
        self._forget_reachable(key)

    def _forget_reachable(self, key: Key) -> None:
        if self._reachable.pop(key, None) is not None:
            self._on_change(key)


_STALLED_REASONS = {
    "HostKeyMismatch": "HostKeyMismatch",
    "UnsupportedObjectFormat": "UnsupportedObjectFormat",
    "AddressRefused": "InsecureTransport",
}


def _translate_git_error(error: GitError) -> WindlassError:
    """A git error as this kind reports it."""
    if error.reason in _STALLED_REASONS:
        return Stalled(_STALLED_REASONS[error.reason], error.message)
    return Retryable("ConnectionFailed", f"{error.reason}: {error.message}")
