"""Finds the commit that a ref text means, for every kind that names one.

Names are looked up in the remote's shared listing; a full SHA is proven by a fetch and
needs no listing. A failure has one of the causes of `causes.py` with its decision, and
is told again for some seconds instead of bothering the remote, unless the caller wants
news (`max_age_seconds=0`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from windlass.base.clock import Clock
from windlass.base.errors import WindlassError
from windlass.git.credentials import Credentials
from windlass.git.errors import GitError
from windlass.git.format import refs
from windlass.git.format.refs import RefUnknown, ResolvedRef
from windlass.git.format.remote import Remote
from windlass.git.ls_remote import RefListings
from windlass.git.runner import Git
from windlass.sources import proofs
from windlass.sources.proofs import CommitProofs

__all__ = ["GATHER_SECONDS", "Resolved", "Resolver"]

GATHER_SECONDS = 0.2

_REPEAT_SECONDS = 3.0
_MOST_KEPT = 1024
_SHA1_CHARS = 40
_ONLY_SHA1 = "repositories with SHA-256 object ids are not supported; use one with SHA-1 ids"

Resolved = ResolvedRef

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    message: str
    at: float


class Resolver:
    """Ref texts to commits; `scratch` is a directory for proofs that nobody else uses."""

    def __init__(self, git: Git, listings: RefListings, scratch: Path, clock: Clock) -> None:
        self._listings = listings
        self._clock = clock
        self._proofs = CommitProofs(git, scratch)
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
        """The commit of `wanted`, as the remote said not longer than `max_age_seconds` ago."""
        key = (remote.fetch_key, remote.user, credentials.fingerprint, wanted)
        self._tell_again(key, max_age_seconds)
        began = self._clock.monotonic()
        try:
            refs.check_ref(wanted)
            found = await self._found(remote, credentials, wanted, max_age_seconds, gather_seconds)
        except (RefUnknown, refs.RefRefused) as error:
            raise self._failed(key, "RefNotFound", str(error), began) from error
        except WindlassError as error:
            told = proofs.translate_error(error)
            raise self._failed(key, told.reason, told.message, began) from error
        self._failures.pop(key, None)
        return found

    def forget(self, remote: Remote, commit: str = "") -> None:
        """Ask and prove anew: the remote was pushed to, or `commit` could not be fetched."""
        self._listings.forget(remote)
        self._proofs.forget(commit)

    async def close(self) -> None:
        await self._proofs.close()

    async def _found(
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
        )
        if listing.object_format != "sha1":
            raise GitError("UnsupportedObjectFormat", _ONLY_SHA1)
        return refs.resolve_ref(listing, wanted)

    def _tell_again(self, key: _Key, max_age_seconds: float) -> None:
        failure = self._failures.get(key)
        if failure is None:
            return
        age = self._clock.monotonic() - failure.at
        if age < min(max_age_seconds, _REPEAT_SECONDS):
            raise proofs.resolution_error(failure.reason, failure.message)

    def _failed(self, key: _Key, reason: str, message: str, at: float) -> WindlassError:
        self._failures[key] = _Failure(reason, message, at)
        self._failures.move_to_end(key)
        while len(self._failures) > _MOST_KEPT:
            self._failures.popitem(last=False)
        return proofs.resolution_error(reason, message)
