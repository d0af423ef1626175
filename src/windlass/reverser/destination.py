"""Reconciles GitDestination: checks references, branch and folder, and reports mirror progress.

A destination whose references are valid is handed to the mirror as a `WriteTarget`; any error
stops its writes and keeps its files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from windlass.api.kinds.gitdestination import GitDestination
from windlass.base import clock
from windlass.base.clock import Clock
from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.git.format import refs
from windlass.git.format.objects import Person
from windlass.git.format.refs import RefListing
from windlass.objects.names import Key
from windlass.reverser import status as reverser_status
from windlass.reverser.attribution.webhook_coverage import AttributionState
from windlass.reverser.content import secret_redaction
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.object_cache import ReverserCache, repository_key
from windlass.reverser.publish import folder_claim, folder_opening
from windlass.reverser.publish.folder import WriteTarget
from windlass.reverser.repository import ReachableRepository, RepositoryReconciler
from windlass.reverser.selection import reference_grants
from windlass.reverser.status import DestinationProgress, StreamCount
from windlass.reverser.watch.mirror import Mirror
from windlass.reverser.watch.stream import Stream
from windlass.runtime import status
from windlass.runtime import status as runtime_status
from windlass.runtime.outcome import Outcome
from windlass.runtime.queue import KeyedQueue

_FOLDER_CLAIMED = "FolderClaimed"
_STATUS_INTERVAL_SECONDS = 10.0
"""A busy destination's status moves at most this often."""


class DestinationReconciler:
    """Every GitDestination; what is in order is handed to the mirror."""

    def __init__(
        self,
        cache: ReverserCache,
        repositories: RepositoryReconciler,
        mirror: Mirror,
        queue: KeyedQueue[Key],
        clock: Clock,
        *,
        mirror_salt: bytes,
        tally: MirrorMetrics,
        attribution: Callable[[Key], tuple[AttributionState, bool]],
    ) -> None:
        self._cache = cache
        self._repositories = repositories
        self._mirror = mirror
        self._queue = queue
        self._clock = clock
        self._mirror_salt = mirror_salt
        self._metrics = tally
        self._attribution = attribution
        self._reported: dict[Key, tuple[DestinationProgress, float]] = {}
        self._ready: dict[Key, bool] = {}
        self._settled: set[Key] = set()
        self._first_synced: set[Key] = set()
        self._last_listings: dict[Key, tuple[RefListing, str | None]] = {}

    def is_ready(self, key: Key) -> bool:
        """Whether the last pass over this destination found it in order."""
        return self._ready.get(key, False)

    def is_settled(self, key: Key) -> bool:
        """Whether more is known of this destination than that it is there."""
        return key in self._settled

    def mirror_progressed(self, key: Key) -> None:
        """The mirror moved: report soon, at once where something turned."""
        told, at = self._reported.get(key, (None, 0.0))
        progress = self._progress(key)
        if told is None or told.transitions != progress.transitions:
            self._queue.add(key)
        elif told != progress:
            self._queue.add_after(
                key, max(0.0, at + _STATUS_INTERVAL_SECONDS - self._clock.monotonic())
            )

    async def reconcile(self, key: Key) -> Outcome:
        """One pass over one GitDestination."""
        raw = self._cache.destinations.get(key)
        if raw is None:
            self._stop_writing(key)
            self._reported.pop(key, None)
            self._last_listings.pop(key, None)
            self._metrics.forget_destination(key)
            return Outcome.gone()
        try:
            destination = GitDestination.decode(raw)
            if self._repositories.is_unchecked(repository_key(destination)):
                return reverser_status.destination_pending("its GitRepoConfig is being looked at")
            self._mirror.start_writing(self._target(destination))
            self._notify_worker(destination)
        except WindlassError:
            self._stop_writing(key)
            self._metrics.set_destination(key, reachable=False, synced=False)
            raise
        progress = self._progress(key)
        self._update_metrics(key, progress)
        status = msgspec.json.decode(raw).get("status") or {}
        outcome = reverser_status.destination_outcome(
            progress, runtime_status.status_conditions(status), is_new=not status.get("lastPush")
        )
        self._ready[key] = outcome.ready is not None and outcome.ready.status == "True"
        self._settled.add(key)
        if outcome.transient and not progress.is_open:
            self._settled.discard(key)
        self._reported[key] = (progress, self._clock.monotonic())
        return outcome

    def _update_metrics(self, key: Key, progress: DestinationProgress) -> None:
        """Tell the metrics how the destination is, and of a claim found in its way."""
        self._metrics.set_destination(
            key,
            reachable=progress.reason != "GitUnavailable",
            synced=progress.is_synced and progress.error is None,
        )
        before = self._reported.get(key)
        if before is not None and before[0].reason == progress.reason:
            return
        if progress.reason == _FOLDER_CLAIMED:
            self._metrics.count_claim_conflict()
        elif progress.reason == folder_opening.OVERLAPPING:
            self._metrics.count_overlap()

    def _notify_worker(self, destination: GitDestination) -> None:
        """Tell the worker of a request, or of where the remote's branch was last seen."""
        key, known = destination.key, self._repositories.reachable(repository_key(destination))
        assert known is not None, "a placed destination has a known repository"
        tip = known.listing.refs.get(refs.branch_ref(destination.spec.branch))
        request = status.newest_request(destination.metadata.annotations)
        last, answered = self._last_listings.get(key, (None, None))
        worker = self._mirror.workers.worker(key)
        if worker is not None and (known.listing is not last or request != answered):
            self._last_listings[key] = (known.listing, request)
            worker.branch_observed(key, tip, flush=last is not None and request != answered)

    def _stop_writing(self, key: Key) -> None:
        self._settled.add(key)
        self._ready.pop(key, None)
        self._mirror.stop_writing(key)

    def _target(self, destination: GitDestination) -> WriteTarget:
        key, spec = destination.key, destination.spec
        repository = repository_key(destination)
        known = self._reachable_repository(destination, repository)
        found = self._cache.repository(repository)
        assert found is not None, "a known repository is in the cache"
        committer = found.spec.commit.committer
        return WriteTarget(
            key=key,
            uid=destination.metadata.uid,
            repository=repository,
            remote=known.remote,
            branch=spec.branch,
            base_folder=spec.base_folder,
            create_branch=spec.create_branch,
            window_seconds=clock.parse_duration(spec.commit_window) if spec.commit_window else None,
            committer=Person(committer.name, committer.email),
            credentials=known.credentials,
            takeover=destination.metadata.annotations.get(folder_claim.TAKEOVER_ANNOTATION),
            salt=secret_redaction.derive_destination_salt(self._mirror_salt, str(key)),
            prune=spec.prune,
            created=_creation_time(destination),
        )

    def _reachable_repository(
        self, destination: GitDestination, repository: Key
    ) -> ReachableRepository:
        """The repository behind a destination, or why it may not or cannot be used."""
        found = self._cache.repository(repository)
        grants = found.spec.allowed_namespaces if found is not None else None
        permission = reference_grants.check_repository_ref(
            destination.key.namespace, repository, grants
        )
        if not permission.allowed or found is None:
            raise _refusal_error(permission)
        if destination.spec.branch not in found.spec.allowed_branches:
            raise Stalled(
                "BranchNotAllowed",
                f"GitRepoConfig {repository} does not list branch {destination.spec.branch} in "
                "spec.allowedBranches; add it there or choose another branch",
            )
        known = self._repositories.reachable(repository)
        if known is None:
            raise Waiting(
                "GitRepoConfigNotReady",
                f"GitRepoConfig {repository} has not reached its remote yet; see its status",
                after=30.0,
            )
        return known

    def _progress(self, key: Key) -> DestinationProgress:
        """How far a destination is; whoever is not seen whole has to become idle once more."""
        progress = self._current_progress(key)
        if not progress.all_scopes_synced:
            self._first_synced.discard(key)
        elif progress.is_idle:
            self._first_synced.add(key)
        return replace(progress, first_sync_done=key in self._first_synced)

    def _current_progress(self, key: Key) -> DestinationProgress:
        found = self._mirror.workers.find(key)
        if found is None:
            return DestinationProgress()
        party, folder = found
        last, (attributed, settles) = folder.last_push, self._attribution(key)
        return DestinationProgress(
            has_worker=True,
            is_open=folder.is_open,
            error=folder.error or party.error,
            objects=folder.objects,
            pending=folder.pending,
            retained=folder.retained,
            last_commit=last.commit if last is not None else "",
            last_time=last.time if last is not None else None,
            last_files=last.files if last is not None else 0,
            refused=tuple((str(identity), reason) for identity, reason in folder.refused.values())[
                :10
            ],
            streams=_count_streams(key, self._mirror.streams(key)),
            waiting_for=self._mirror.unsynced_scopes(key)[:3],
            is_idle=folder.is_idle,
            attributed=attributed,
            attribution_is_settling=settles,
        )


def _creation_time(destination: GitDestination) -> str:
    created = destination.metadata.creation_timestamp
    return created.isoformat() if created is not None else ""


def _refusal_error(permission: reference_grants.Permission) -> WindlassError:
    assert permission.reason is not None, "an allowed reference to nothing is a missing one"
    if permission.stalled:
        return Stalled(permission.reason, permission.message)
    return Waiting(permission.reason, permission.message, after=30.0)


def _count_streams(key: Key, streams: tuple[Stream, ...]) -> StreamCount:
    return StreamCount(
        total=len(streams),
        synced=sum(key in stream.synced for stream in streams),
        forbidden=sum(stream.state == "forbidden" for stream in streams),
        restarting=sum(stream.state in ("restarting", "incomplete") for stream in streams),
    )
