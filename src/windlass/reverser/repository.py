"""Reconciles GitRepoConfig: can the remote be reached, and which branches does it have?

One `ls-remote` serves every config of the same remote and credential (REP-1). A missing
branch is reported but blocks no destination on another branch (REP-2). Destinations use the
credentials and the ref listing that were read here; nothing is read twice.

The remote is queried again at an interval, when the spec or a credential changed, and on
request. Destinations never continue with an address that the object no longer names, whether or
not the new one answers; changed credentials keep the last answer until the remote answers or
refuses them.

Secrets, host keys and CAs are read by name, from the namespace of the object that names them,
never listed and never watched (REF-6, LIF-5). So only the next reconcile notices a repair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from windlass.api.kinds.gitrepoconfig import GitRepoConfig, GitRepoConfigSpec
from windlass.api.schema.object_references import CertificateRef, KnownHostsRef
from windlass.base.clock import Clock
from windlass.base.errors import Retryable, Stalled, WindlassError
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError
from windlass.git.format import known_hosts
from windlass.git.format.refs import RefListing
from windlass.git.format.remote import Remote, RemoteRefused
from windlass.git.runner import check_transport
from windlass.kube.api import Api
from windlass.objects.names import Key
from windlass.reverser import status
from windlass.reverser.object_cache import ReverserCache
from windlass.runtime import status as runtime_status
from windlass.runtime.outcome import READY, Outcome
from windlass.runtime.pending_calls import PendingCalls
from windlass.sources import credentials
from windlass.sources.credentials import CredentialRefs, KeyRef, SecretKeyMissing, SecretMissing
from windlass.sources.git_service import GitService

_log = structlog.get_logger(__name__)

SECRET_RETRY_SECONDS = 3.0


async def read_credentials(api: Api, repository: GitRepoConfig) -> Credentials:
    """The credentials of a repository; the Stalled it raises names what is missing."""
    try:
        return await credentials.read_credentials(
            api, repository.metadata.namespace, credential_refs(repository.spec)
        )
    except SecretKeyMissing as error:
        raise Stalled("SecretMalformed", error.message, after=SECRET_RETRY_SECONDS) from error
    except SecretMissing as error:
        # A request refused by an API server that just started does not prove that the Secret is
        # gone, so the last credentials stay in use.
        decision = Retryable if error.is_refused else Stalled
        raise decision("SecretNotFound", error.message, after=SECRET_RETRY_SECONDS) from error


def credential_refs(spec: GitRepoConfigSpec) -> CredentialRefs:
    """The Secret and keys that hold the credentials of a repository."""
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
"""How long a fresh listing waits for other callers, who share it; above 0, so that a listing
that is under way already does not count as fresh."""


@dataclass(frozen=True, slots=True)
class ReachableRepository:
    """A repository whose remote answered; `listing` is its newest ref listing."""

    remote: Remote
    credentials: Credentials
    listing: RefListing


@dataclass(frozen=True, slots=True)
class _CheckTrigger:
    """What a check depends on; if any of it changes, the remote is listed afresh."""

    uid: str  # metadata.uid: one that is created again may have another URL
    generation: int  # metadata.generation
    fingerprint: str  # of the credentials
    request: str | None  # newest reconcile request annotation


@dataclass(frozen=True, slots=True)
class _FailedCheck:
    """A check that failed; its error is reported again instead of querying the remote at once."""

    trigger: _CheckTrigger
    error: WindlassError
    until: float  # monotonic time

    def still_applies(self, trigger: _CheckTrigger, now: float) -> bool:
        """Whether nothing changed since and it is too early to retry."""
        return self.trigger == trigger and now < self.until


class RepositoryReconciler:
    """Reconciles all GitRepoConfigs, and keeps the last listing of each remote."""

    def __init__(
        self,
        api: Api,
        cache: ReverserCache,
        git: GitService,
        calls: PendingCalls,
        clock: Clock,
        *,
        check_seconds: float,
        on_change: Callable[[Key], None],
    ) -> None:
        self._api = api
        self._cache = cache
        self._git = git
        self._calls = calls
        self._clock = clock
        self._check_seconds = check_seconds
        # How old a listing may be that nothing changed since; any age if checks are off.
        self._max_age_seconds = max(0.0, check_seconds - 1.0) if check_seconds else float("inf")
        self._on_change = on_change
        # What destinations work with; stays through failures that prove nothing.
        self._reachable: dict[Key, ReachableRepository] = {}
        # The last check, if it failed.
        self._failures: dict[Key, _FailedCheck] = {}
        # What the last query of the remote depended on.
        self._triggers: dict[Key, _CheckTrigger] = {}
        # Repositories that were reported as Checking, or had a status before.
        self._reported: set[Key] = set()
        # Repositories whose present address was checked at least once since this process began.
        self._checked: set[Key] = set()

    def reachable(self, key: Key) -> ReachableRepository | None:
        """What is known of a repository; None if it may not or could not be used yet."""
        return self._reachable.get(key)

    def is_unchecked(self, key: Key) -> bool:
        """Whether a repository exists and its address was not checked by this process yet."""
        return key not in self._checked and self._cache.repositories.get(key) is not None

    async def reconcile(self, key: Key) -> Outcome:
        """Check the remote of one GitRepoConfig; report a new one as Checking first."""
        if self._is_new(key):
            return status.repository_checking(after=_DEBOUNCE_SECONDS)
        try:
            outcome = await self._check(key)
        except WindlassError:
            self._mark_checked(key)
            raise
        self._mark_checked(key)
        return outcome

    def _mark_checked(self, key: Key) -> None:
        if key not in self._checked:
            self._checked.add(key)
            self._on_change(key)

    def _is_new(self, key: Key) -> bool:
        """Whether it has no status yet; then Checking is reported, as a remote may take long."""
        repository = self._cache.repository(key)
        if repository is None or key in self._reported:
            return False
        self._reported.add(key)
        return repository.status.condition(READY) is None

    async def _check(self, key: Key) -> Outcome:
        raw = self._cache.repositories.get(key)
        if raw is None:
            self._forget(key)
            return Outcome.gone()
        try:
            repository = GitRepoConfig.decode(raw)
            remote = self._remote(repository)
            self._forget_other_address(key, remote)
            auth = await read_credentials(self._api, repository)
        except Stalled:
            # A removed Secret or a changed address is intended: nothing is written with the old.
            self._forget(key)
            raise
        try:
            listing = await self._listing(key, repository, remote, auth)
        except WindlassError as error:
            last = self._reachable.get(key)
            if last is not None and last.credentials != auth:
                self._forget_reachable(key)
            return status.repository_unreachable(
                error, remote.display, after=_UNREACHABLE_RETRY_SECONDS
            )
        self._remember(key, ReachableRepository(remote, auth, listing))
        return status.repository_reachable(
            listing.refs,
            repository.spec.allowed_branches,
            creating=self._branches_to_create(key),
            remote=remote.identity,
            verified=auth.host_key_verification or remote.scheme != "ssh",
            after=self._check_seconds or None,
        )

    def _forget_other_address(self, key: Key, remote: Remote) -> None:
        """Have destinations wait for the first answer of a changed address, as after a start.

        It may take long, and until then they would write where the object points no longer.
        Credentials alone change nothing about that: the last answer counts until the next.
        """
        last = self._reachable.get(key)
        if last is not None and last.remote != remote:
            self._checked.discard(key)
            self._forget_reachable(key)

    def _remote(self, repository: GitRepoConfig) -> Remote:
        try:
            remote = Remote.parse(repository.spec.repo_url)
        except RemoteRefused as error:
            raise Stalled("SpecInvalid", f"spec.repoUrl: {error}") from error
        check_transport(remote, self._git.settings)
        return remote

    async def _listing(
        self, key: Key, repository: GitRepoConfig, remote: Remote, auth: Credentials
    ) -> RefListing:
        """The remote's refs, from the shared cache where that is new enough.

        A failed query is not repeated while nothing changed; a new reason is logged.
        """
        request = runtime_status.newest_request(repository.metadata.annotations)
        metadata = repository.metadata
        trigger = _CheckTrigger(metadata.uid, metadata.generation, auth.fingerprint, request)
        now, failure = self._clock.monotonic(), self._failures.get(key)
        if failure is not None and failure.still_applies(trigger, now):
            raise failure.error
        # The first check after a start may share a listing; a change needs one of its own, and so
        # does a retry, which a listing from before the failure would hide.
        fresh = failure is not None or self._triggers.get(key, trigger) != trigger
        self._triggers[key] = trigger
        max_age = 0.0 if fresh else self._max_age_seconds
        try:
            listing = await self._calls.result(
                key,
                "listing",
                trigger,
                lambda: self._git.listings.get(
                    remote,
                    auth,
                    max_age_seconds=max_age,
                    gather_seconds=_DEBOUNCE_SECONDS if fresh else 0.0,
                ),
            )
        except GitError as error:
            translated = _translate_git_error(error, repository.spec, remote)
            until = now + min(self._check_seconds or 60.0, 15.0)
            self._failures[key] = _FailedCheck(trigger, translated, until)
            if failure is None or failure.error.reason != translated.reason:
                _log.warning(
                    "remote check failed; retrying",
                    repository=str(key),
                    reason=translated.reason,
                    message=translated.message,
                )
            raise translated from error
        if self._failures.pop(key, None) is not None:
            _log.info("remote check recovered", repository=str(key))
        return listing

    def _branches_to_create(self, key: Key) -> frozenset[str]:
        """Branches that a destination of this repository will create."""
        users = (self._cache.destination(user) for user in self._cache.destinations_for(key))
        return frozenset(
            destination.spec.branch
            for destination in users
            if destination is not None and destination.spec.create_branch
        )

    def _remember(self, key: Key, repository: ReachableRepository) -> None:
        previous, self._reachable[key] = self._reachable.get(key), repository
        # A new listing with equal refs counts, too: the branch may be back where it was before
        # our push.
        if previous is None or previous.listing is not repository.listing or previous != repository:
            self._on_change(key)

    def _forget(self, key: Key) -> None:
        self._calls.forget(key)
        self._reported.discard(key)
        self._failures.pop(key, None)
        self._triggers.pop(key, None)
        self._forget_reachable(key)

    def _forget_reachable(self, key: Key) -> None:
        if self._reachable.pop(key, None) is not None:
            self._on_change(key)


_STALLED_REASONS = frozenset({"HostKeyMismatch", "UnsupportedObjectFormat"})
"""Reasons of git that only a change of the spec can fix."""


def _translate_git_error(error: GitError, spec: GitRepoConfigSpec, remote: Remote) -> WindlassError:
    """A git error as the condition of a GitRepoConfig reports it."""
    if error.reason == "HostKeyUnknown":
        return Stalled(error.reason, _host_key_remedy(spec, remote))
    if error.reason in _STALLED_REASONS:
        return Stalled(error.reason, error.message)
    return Retryable("ConnectionFailed", f"{error.reason}: {error.message}")


def _host_key_remedy(spec: GitRepoConfigSpec, remote: Remote) -> str:
    """Where the missing key of the host can be added."""
    name = known_hosts.lookup_name(remote.host, remote.port)
    secret, hosts = spec.secret_ref, spec.known_hosts_ref
    if hosts is not None:
        return (
            f"add the host key of {name} to {hosts.key} in {hosts.kind} {hosts.name}; known_hosts "
            "in the Secret named by spec.secretRef takes precedence"
        )
    place = f"known_hosts in Secret {secret.name}, or" if secret is not None else "a ConfigMap and"
    return f"add the host key of {name} to {place} set spec.knownHostsRef"
