"""Reconciles GitDestination: checks references, branch and folder, and reports mirror progress.

A destination whose references are valid is passed to the mirror as a `WriteTarget`; any error
stops its writes and keeps its files. Between reconciles the mirror reports progress through
`mirror_progressed`, which requeues the destination: at once for a transition, else at most every
`_STATUS_INTERVAL_SECONDS`. Changes that wait take Synced back only if they wait that long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from windlass.api.kinds.gitdestination import GitDestination
from windlass.base import clock
from windlass.base.clock import Clock
from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.git.format import refs
from windlass.git.format.objects import Person
from windlass.git.format.refs import RefListing
from windlass.objects.condition import Condition
from windlass.objects.names import Key, Object
from windlass.reverser import destination_status
from windlass.reverser.attribution.webhook_coverage import AttributionState
from windlass.reverser.content import secret_redaction
from windlass.reverser.destination_status import DestinationProgress, StreamCount
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.object_cache import ReverserCache, repository_key
from windlass.reverser.publish import folder_claim, folder_opening
from windlass.reverser.publish.folder import WriteTarget
from windlass.reverser.repository import ReachableRepository, RepositoryReconciler
from windlass.reverser.selection import reference_grants
from windlass.reverser.watch.mirror import Mirror
from windlass.reverser.watch.stream import Stream
from windlass.reverser.watch.stream_registry import StreamRegistry
from windlass.runtime import status as runtime_status
from windlass.runtime.outcome import READY, Outcome
from windlass.runtime.queue import KeyedQueue
from windlass.telemetry.reasons import EventReason

_FOLDER_CLAIMED = "FolderClaimed"
_STATUS_INTERVAL_SECONDS = 10.0
"""The status of a busy destination is written at most this often."""


class DestinationReconciler:
    """Reconciles all GitDestinations; valid ones are passed to the mirror."""

    def __init__(
        self,
        cache: ReverserCache,
        repositories: RepositoryReconciler,
        mirror: Mirror,
        registry: StreamRegistry,
        queue: KeyedQueue[Key],
        clock: Clock,
        *,
        mirror_salt: bytes,
        metrics: MirrorMetrics,
        attribution: Callable[[Key], tuple[AttributionState, bool]],
        newest: Callable[[Key], Object | None],
    ) -> None:
        self._cache = cache
        # A GitDestination with our last status write; that of its reporter.
        self._newest = newest
        self._repositories = repositories
        self._mirror = mirror
        self._registry = registry
        self._queue = queue
        self._clock = clock
        self._mirror_salt = mirror_salt
        self._metrics = metrics
        # State of attribution for a destination, and whether it is still settling.
        self._attribution = attribution
        # The object that what follows is known of, by its metadata.uid.
        self._uids: dict[Key, str] = {}
        # Since when paths of a destination wait for a push, monotonic; absent = none does.
        self._pending_since: dict[Key, float] = {}
        # The progress last reported, and its monotonic time.
        self._reported: dict[Key, tuple[DestinationProgress, float]] = {}
        # Turns of Ready that were reported in the last fight with other writers, with its number.
        self._race_turns: dict[Key, frozenset[tuple[int, str]]] = {}
        # Whether the last reconcile found it Ready; absent = no.
        self._ready: dict[Key, bool] = {}
        # Destinations whose verdict is final for now; until then rules do not warn about them.
        self._settled: set[Key] = set()
        # Destinations that were idle at least once since all their scopes are synced.
        self._first_synced: set[Key] = set()
        # Rules that were resolved or refused since this process began, as kind and key.
        self._checked_rules: set[tuple[str, Key]] = set()
        # The ref listing and the reconcile request that the worker was last notified of.
        self._last_listings: dict[Key, tuple[RefListing, str | None]] = {}

    def is_ready(self, key: Key) -> bool:
        """Whether the last reconcile of this destination ended with Ready True."""
        return self._ready.get(key, False) and not self._is_made_again(key)

    def is_settled(self, key: Key) -> bool:
        """Whether a reconcile of this destination reached a verdict, be it an error."""
        return key in self._settled and not self._is_made_again(key)

    def rule_checked(self, kind: str, rule: Key, destination: Key | None) -> None:
        """Note that a rule was resolved or refused; until then its destination is not synced."""
        if (kind, rule) not in self._checked_rules:
            self._checked_rules.add((kind, rule))
            if destination is not None:
                self.mirror_progressed(destination)

    def rule_deleted(self, kind: str, rule: Key) -> None:
        """Forget a rule."""
        self._checked_rules.discard((kind, rule))

    def mirror_progressed(self, key: Key) -> None:
        """Requeue a destination whose progress changed, at once if it is a transition."""
        reported, reported_at = self._reported.get(key, (None, 0.0))
        progress = self._progress(key)
        if (
            reported is None
            or reported.transitions != progress.transitions
            or reported.is_synced != progress.is_synced
        ):
            self._queue.add(key)
        elif reported != progress:
            # Most pushes end within the interval: then what waited is never written.
            since = self._pending_since.get(key, reported_at)
            self._queue.add_after(key, self._seconds_left(since))

    async def reconcile(self, key: Key) -> Outcome:
        """Check one GitDestination, pass it to the mirror and report its progress."""
        raw = self._cache.destinations.get(key)
        if raw is None:
            self._forget(key)
            return Outcome.gone()
        try:
            destination = GitDestination.decode(raw)
            # Deleted and created again between two reconciles: nothing of the old one is true.
            if self._is_successor(destination):
                self._forget(key)
            self._uids[key] = destination.metadata.uid
            # After a start, and after a change of the address, its repository comes first; until
            # then nothing has failed, and nothing is written.
            repository = repository_key(destination)
            grace = reference_grants.seconds_of_grace(
                self._permission(destination),
                destination.metadata.creation_timestamp,
                self._clock.now(),
            )
            if grace or self._repositories.is_unchecked(repository):
                self._stop_writing(key)
                self._settled.discard(key)
                return destination_status.destination_pending(
                    f"waiting for GitRepoConfig {repository}", after=grace or None
                )
            self._mirror.start_writing(self._target(destination))
            self._notify_worker(destination)
        except WindlassError:
            self._stop_writing(key)
            self._metrics.set_destination(key, reachable=False, synced=False)
            raise
        progress = self._progress(key)
        self._update_metrics(key, progress)
        # The cache may not have our last write yet, and its Events would come twice.
        stored_status = (self._newest(key) or {}).get("status") or {}
        before = runtime_status.status_conditions(stored_status)
        outcome = destination_status.destination_outcome(
            progress,
            before,
            is_new=not (stored_status.get("lastPush") or stored_status.get("objects")),
            fields_before=stored_status,
        )
        if self._repeats_race(key, progress, before):
            outcome = replace(outcome, is_quiet=True)
        self._ready[key] = outcome.ready is not None and outcome.ready.status == "True"
        self._settled.add(key)
        # Its branch is still being checked.
        if outcome.transient and not progress.is_open:
            self._settled.discard(key)
        self._reported[key] = (progress, self._clock.monotonic())
        if progress.pending and not progress.is_late:
            return replace(outcome, requeue_after=self._seconds_left(self._pending_since[key]))
        return outcome

    def _repeats_race(
        self, key: Key, progress: DestinationProgress, before: Iterable[Condition]
    ) -> bool:
        """Whether Ready turns as it did before in the same fight with other writers.

        Pushes that land and pushes that lose a race alternate; the first turn of each kind is
        an Event.
        """
        last = next((row.reason for row in before if row.type == READY), "")
        ready = progress.reason or "Ready"
        if {last, ready} != {"Ready", EventReason.PUSH_RACED}:
            return False
        turn, turns = (progress.fight, ready), self._race_turns.get(key, frozenset())
        self._race_turns[key] = frozenset(row for row in turns if row[0] == turn[0]) | {turn}
        return turn in turns

    def _seconds_left(self, since: float) -> float:
        """Seconds until the interval that began then is over."""
        return max(0.0, since + _STATUS_INTERVAL_SECONDS - self._clock.monotonic())

    def _update_metrics(self, key: Key, progress: DestinationProgress) -> None:
        """Set the gauges of a destination, and count a folder conflict when it appears."""
        self._metrics.set_destination(
            key,
            reachable=progress.reason != "GitUnavailable",
            synced=progress.is_synced and progress.error is None,
        )
        previous = self._reported.get(key)
        if previous is not None and previous[0].reason == progress.reason:
            return
        if progress.reason == _FOLDER_CLAIMED:
            self._metrics.count_claim_conflict()
        elif progress.reason == folder_opening.OVERLAPPING:
            self._metrics.count_overlap()

    def _notify_worker(self, destination: GitDestination) -> None:
        """Pass a new tip of the branch, or a new reconcile request, to the worker."""
        key, repository = destination.key, self._repositories.reachable(repository_key(destination))
        assert repository is not None, "_target checked that the repository is reachable"
        tip = repository.listing.refs.get(refs.branch_ref(destination.spec.branch))
        request = runtime_status.newest_request(destination.metadata.annotations)
        last_listing, last_request = self._last_listings.get(key, (None, None))
        worker = self._mirror.workers.worker(key)
        if worker is not None and (
            repository.listing is not last_listing or request != last_request
        ):
            self._last_listings[key] = (repository.listing, request)
            # A request from before this process started is not a new one.
            requested = last_listing is not None and request != last_request
            worker.branch_observed(key, tip, flush=requested)

    def _is_successor(self, destination: GitDestination) -> bool:
        """Whether what is known under its key is of an object that was deleted."""
        uid = destination.metadata.uid
        return self._uids.get(destination.key, uid) != uid

    def _is_made_again(self, key: Key) -> bool:
        destination = self._cache.destination(key)
        return destination is not None and self._is_successor(destination)

    def _forget(self, key: Key) -> None:
        """Drop everything that is known of an object that is gone."""
        self._mirror.forget(key)
        self._ready.pop(key, None)
        self._settled.discard(key)
        self._first_synced.discard(key)
        self._uids.pop(key, None)
        self._reported.pop(key, None)
        self._pending_since.pop(key, None)
        self._race_turns.pop(key, None)
        self._last_listings.pop(key, None)
        self._metrics.forget_destination(key)

    def _stop_writing(self, key: Key) -> None:
        self._settled.add(key)
        self._ready.pop(key, None)
        self._mirror.stop_writing(key)

    def _target(self, destination: GitDestination) -> WriteTarget:
        """What the mirror needs to write for a destination; raises if a reference is not valid."""
        key, spec = destination.key, destination.spec
        repository = repository_key(destination)
        reachable = self._reachable_repository(destination, repository)
        config = self._cache.repository(repository)
        assert config is not None, "_reachable_repository raises if it is absent"
        committer = config.spec.commit.committer
        return WriteTarget(
            key=key,
            uid=destination.metadata.uid,
            repository=repository,
            remote=reachable.remote,
            branch=spec.branch,
            base_folder=spec.base_folder,
            create_branch=spec.create_branch,
            window_seconds=clock.parse_duration(spec.commit_window) if spec.commit_window else None,
            committer=Person(committer.name, committer.email),
            credentials=reachable.credentials,
            takeover=destination.metadata.annotations.get(folder_claim.TAKEOVER_ANNOTATION),
            salt=secret_redaction.derive_destination_salt(self._mirror_salt, str(key)),
            prune=spec.prune,
            created=_creation_time(destination),
        )

    def _permission(self, destination: GitDestination) -> reference_grants.Permission:
        """Whether a destination may use the repository that it names."""
        repository = repository_key(destination)
        config = self._cache.repository(repository)
        grants = config.spec.allowed_namespaces if config is not None else None
        return reference_grants.check_repository_ref(destination.key.namespace, repository, grants)

    def _reachable_repository(
        self, destination: GitDestination, repository: Key
    ) -> ReachableRepository:
        """The repository of a destination; raises if it may not or cannot be used."""
        config, permission = self._cache.repository(repository), self._permission(destination)
        if not permission.allowed or config is None:
            raise _refusal_error(permission)
        if destination.spec.branch not in config.spec.allowed_branches:
            raise Stalled(
                "BranchNotAllowed",
                f"branch {destination.spec.branch} is not in spec.allowedBranches of GitRepoConfig "
                f"{repository}; add it or choose another branch",
            )
        reachable = self._repositories.reachable(repository)
        if reachable is None:
            raise Waiting(
                "GitRepoConfigNotReady",
                f"waiting for GitRepoConfig {repository} to reach its remote; see its status",
                after=30.0,
            )
        return reachable

    def _progress(self, key: Key) -> DestinationProgress:
        """The progress of a destination, with its first sync tracked over time."""
        progress = self._current_progress(key)
        # A scope that lost its snapshot starts the first sync over.
        if not progress.all_scopes_synced:
            self._first_synced.discard(key)
        elif progress.is_idle:
            self._first_synced.add(key)
        return replace(
            progress,
            first_sync_done=key in self._first_synced,
            is_late=self._pends_for_long(key, progress),
        )

    def _pends_for_long(self, key: Key, progress: DestinationProgress) -> bool:
        """Whether paths have waited for a push for the whole interval."""
        if not progress.pending:
            self._pending_since.pop(key, None)
            return False
        since = self._pending_since.setdefault(key, self._clock.monotonic())
        return self._seconds_left(since) == 0.0

    def _unchecked_rules(self, key: Key) -> tuple[str, ...]:
        """Rules of a destination that may still select scopes for it."""
        return tuple(
            f"{kind} {rule} (not resolved yet)"
            for kind, rule in self._cache.rules_for(key)
            if (kind, rule) not in self._checked_rules
        )

    def _current_progress(self, key: Key) -> DestinationProgress:
        assigned = self._mirror.workers.find(key)
        if assigned is None:
            return DestinationProgress()
        group, folder = assigned
        last, (attributed, attribution_is_settling) = folder.last_push, self._attribution(key)
        return DestinationProgress(
            is_open=folder.is_open,
            error=folder.error or group.error,
            fight=group.fight,
            objects=folder.objects,
            pending=folder.pending,
            retained=folder.retained,
            last_commit=last.commit if last is not None else "",
            last_time=last.time if last is not None else None,
            last_files=last.files if last is not None else 0,
            refused=tuple((str(identity), reason) for identity, reason in folder.refused.values())[
                :10
            ],
            streams=_count_streams(key, self._registry.streams_for(key)),
            waiting_for=(*self._unchecked_rules(key), *self._registry.unsynced_scopes(key))[:3],
            is_idle=folder.is_idle,
            attributed=attributed,
            attribution_is_settling=attribution_is_settling,
        )


def _creation_time(destination: GitDestination) -> str:
    created = destination.metadata.creation_timestamp
    return created.isoformat() if created is not None else ""


def _refusal_error(permission: reference_grants.Permission) -> WindlassError:
    assert permission.reason is not None, "a refused permission has a reason"
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
