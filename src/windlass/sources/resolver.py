"""Resolves a ref to a commit, for every kind that names one.

Names are looked up in the shared listing of the remote; a full SHA is proven by a fetch and needs
no listing. A failure has one of the causes of `proofs` with its decision. It is repeated for some
seconds without a request to the remote, unless the caller demands a fresh result
(`max_age_seconds=0`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from windlass.base.clock import Clock
from windlass.base.errors import WindlassError
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError
from windlass.git.format import refs
from windlass.git.format.refs import RefUnknown, ResolvedRef
from windlass.git.format.remote import Remote
from windlass.sources import proofs
from windlass.sources.git_service import GitService
from windlass.sources.proofs import CommitProofs

__all__ = ["GATHER_SECONDS", "Resolved", "Resolver"]

GATHER_SECONDS = 0.2

_REPEAT_SECONDS = 3.0
_MAX_FAILURES = 1024
_SHA1_CHARS = 40
_ONLY_SHA1 = "SHA-256 repositories are not supported; use a SHA-1 repository"

Resolved = ResolvedRef

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class _Failure:
    """The last failure of a ref; `at` is when its attempt began (monotonic)."""

    reason: str
    message: str
    at: float


class Resolver:
    """Resolves refs; `scratch` is a directory for proofs, not shared with other code.

    `on_shared` is called for each ref that needed no listing of its own.
    """

    def __init__(
        self,
        service: GitService,
        scratch: Path,
        clock: Clock,
        *,
        on_shared: Callable[[], object] = lambda: None,
    ) -> None:
        self._listings = service.listings
        self._clock = clock
        self._on_shared = on_shared
        self._proofs = CommitProofs(service.git, scratch)
        # The last failure by remote, user, credential and ref; bounded, oldest first.
        self._failures: OrderedDict[_Key, _Failure] = OrderedDict()

    async def resolve(
        self,
        remote: Remote,
        credentials: Credentials,
        wanted: str,
        *,
        max_age_seconds: float,
        gather_seconds: float = GATHER_SECONDS,
    ) -> Resolved:
        """The commit of the ref `wanted`, from a listing not older than `max_age_seconds`."""
        key = (remote.fetch_key, remote.user, credentials.fingerprint, wanted)
        self._raise_recent_failure(key, max_age_seconds)
        began = self._clock.monotonic()
        try:
            refs.check_ref(wanted)
            resolved = await self._resolve_now(
                remote, credentials, wanted, max_age_seconds, gather_seconds
            )
        except (RefUnknown, refs.RefRefused) as error:
            raise self._failed(key, "RefNotFound", str(error), began) from error
        except WindlassError as error:
            cause = proofs.translate_error(error)
            raise self._failed(key, cause.reason, cause.message, began) from error
        self._failures.pop(key, None)
        return resolved

    def forget(self, remote: Remote, commit: str = "") -> None:
        """Drop cached results: the remote was pushed to, or `commit` could not be fetched."""
        self._listings.forget(remote)
        self._proofs.forget(commit)

    async def close(self) -> None:
        await self._proofs.close()

    async def _resolve_now(
        self,
        remote: Remote,
        credentials: Credentials,
        wanted: str,
        max_age_seconds: float,
        gather_seconds: float,
    ) -> Resolved:
        if refs.is_sha(wanted):
            sha = wanted.lower()
            if len(sha) != _SHA1_CHARS:
                raise GitError("UnsupportedObjectFormat", _ONLY_SHA1)
            return Resolved(await self._proofs.commit(remote, credentials, sha), sha, "sha")
        listing = await self._listings.get(
            remote,
            credentials,
            max_age_seconds=max_age_seconds,
            wants=refs.ref_patterns(wanted),
            gather_seconds=gather_seconds,
            on_shared=self._on_shared,
        )
        if listing.object_format != "sha1":
            raise GitError("UnsupportedObjectFormat", _ONLY_SHA1)
        return refs.resolve_ref(listing, wanted)

    def _raise_recent_failure(self, key: _Key, max_age_seconds: float) -> None:
        failure = self._failures.get(key)
        if failure is None:
            return
        age = self._clock.monotonic() - failure.at
        if age < min(max_age_seconds, _REPEAT_SECONDS):
            raise proofs.resolution_error(failure.reason, failure.message)

    def _failed(self, key: _Key, reason: str, message: str, at: float) -> WindlassError:
        self._failures[key] = _Failure(reason, message, at)
        self._failures.move_to_end(key)
        while len(self._failures) > _MAX_FAILURES:
            self._failures.popitem(last=False)
        return proofs.resolution_error(reason, message)
