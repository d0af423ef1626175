"""When the status of a destination is computed again, and what it waits for."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from tests.support.reverser.destination_folder import DESTINATION, empty_folder
from tests.unit.runtime.fakes import ManualClock
from windlass.api.kinds.gitdestination import GitDestination
from windlass.api.kinds.gitrepoconfig import GitRepoConfig
from windlass.git.credentials import ANONYMOUS
from windlass.git.format.refs import RefListing
from windlass.git.format.remote import Remote
from windlass.objects.condition import Condition
from windlass.objects.names import Key
from windlass.reverser.destination import DestinationReconciler
from windlass.reverser.destination_status import DestinationProgress
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.publish.file_update import FolderReview
from windlass.reverser.publish.folder import Folder
from windlass.reverser.publish.writer_group import WriterGroup
from windlass.reverser.repository import ReachableRepository
from windlass.reverser.watch.stream_registry import StreamRegistry
from windlass.runtime import status as runtime_status
from windlass.telemetry.reverser import ReverserMetrics

_REPOSITORY = GitRepoConfig.decode(
    json.dumps(
        {
            "metadata": {"name": "repo", "namespace": "ns", "uid": "r", "generation": 1},
            "spec": {"repoUrl": "https://git.example.org/x", "allowedBranches": ["main"]},
        }
    ).encode()
)
_REACHABLE = ReachableRepository(
    Remote.parse("https://git.example.org/x"), ANONYMOUS, RefListing({}, "main")
)


@dataclass
class _StoredDestination:
    """The GitDestination as the cache has it, and its status as it was last written."""

    uid: str = "u"
    newest_status: dict[str, Any] = field(default_factory=dict)

    def get(self, key: Key) -> bytes:
        metadata = {"name": key.name, "namespace": key.namespace, "uid": self.uid}
        spec = {"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": "base"}
        return json.dumps({"metadata": metadata | {"generation": 1}, "spec": spec}).encode()

    def decoded(self, key: Key) -> GitDestination:
        return GitDestination.decode(self.get(key))


_RULE = ("WatchRule", Key("ns", "rule"))


class _RequeuedKeys:
    """A queue that records how long a destination waits for its next reconcile."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def add(self, key: Key) -> None:
        self.seconds.append(0.0)

    def add_after(self, key: Key, seconds: float) -> None:
        self.seconds.append(seconds)


def _reconciler(
    folder: Folder,
    queue: _RequeuedKeys,
    *rules: Any,
    clock: ManualClock | None = None,
    group: WriterGroup | None = None,
    stored: _StoredDestination | None = None,
) -> DestinationReconciler:
    """A reconciler whose only destination has that folder and those rules."""
    group, stored = group or WriterGroup(Key("ns", "repo")), stored or _StoredDestination()
    workers = SimpleNamespace(find=lambda _: (group, folder), worker=lambda _: None)
    mirror = SimpleNamespace(
        workers=workers,
        start_writing=lambda _: None,
        stop_writing=lambda _: None,
        forget=lambda _: None,
    )
    cache = SimpleNamespace(
        rules_for=lambda _: rules,
        destinations=stored,
        destination=stored.decoded,
        repository=lambda _: _REPOSITORY,
    )
    return DestinationReconciler(
        cast("Any", cache),
        cast("Any", SimpleNamespace(is_unchecked=lambda _: False, reachable=lambda _: _REACHABLE)),
        cast("Any", mirror),
        StreamRegistry(),
        cast("Any", queue),
        clock or ManualClock(),
        mirror_salt=b"",
        metrics=MirrorMetrics(ReverserMetrics(CollectorRegistry())),
        attribution=lambda _: ("Receiving", False),
        newest=lambda _: {**json.loads(stored.get(DESTINATION)), "status": stored.newest_status},
    )


def _report(reconciler: DestinationReconciler) -> DestinationProgress:
    """Report the progress of this moment, as a reconcile does."""
    progress = reconciler._progress(DESTINATION)
    reconciler._reported[DESTINATION] = (progress, reconciler._clock.monotonic())
    return progress


def test_a_destination_that_is_synced_again_is_reported_at_once() -> None:
    """2.2: a condition that turns does not wait for the interval of a busy status."""
    folder, queue, clock = empty_folder(), _RequeuedKeys(), ManualClock()
    reconciler = _reconciler(folder, queue, clock=clock)
    folder.is_open = True
    assert _report(reconciler).is_synced
    folder.dropped.add("base/one.yaml")
    _report(reconciler)
    clock.seconds = 10.0
    assert not _report(reconciler).is_synced
    folder.dropped.clear()
    reconciler.mirror_progressed(DESTINATION)
    assert queue.seconds == [0.0]


def test_changes_are_reported_only_if_they_wait_for_long() -> None:
    """A push that ends soon writes no status that says Synced=False."""
    folder, queue, clock = empty_folder(), _RequeuedKeys(), ManualClock()
    reconciler = _reconciler(folder, queue, clock=clock)
    folder.is_open = True
    assert _report(reconciler).is_synced
    clock.seconds = 100.0
    folder.dropped.add("base/one.yaml")
    reconciler.mirror_progressed(DESTINATION)
    assert queue.seconds == [10.0]


def test_changes_count_as_waiting_from_when_they_came() -> None:
    """A reconcile for another reason reports none that came a moment ago."""
    folder, clock = empty_folder(), ManualClock()
    reconciler = _reconciler(folder, _RequeuedKeys(), clock=clock)
    folder.is_open = True
    _report(reconciler)
    for came in (0.0, 15.0):
        clock.seconds = came
        folder.dropped.add("base/one.yaml")
        assert _report(reconciler).is_synced
        clock.seconds = came + 9.0
        assert _report(reconciler).is_synced
        folder.dropped.clear()
        assert _report(reconciler).is_synced


def test_a_review_that_changes_nothing_requeues_nothing() -> None:
    """A destination stays synced while a folder review is compared with Git."""
    folder, queue = empty_folder(), _RequeuedKeys()
    reconciler = _reconciler(folder, queue)
    folder.is_open = True
    _report(reconciler)
    folder.add_snapshot(FolderReview(), 0.0)
    assert not folder.is_idle
    assert reconciler._progress(DESTINATION).is_synced


def test_a_destination_waits_for_rules_that_were_not_resolved_yet() -> None:
    """Before the first discovery nothing is watched, which does not mean that nothing is wanted."""
    folder, queue = empty_folder(), _RequeuedKeys()
    reconciler = _reconciler(folder, queue, _RULE)
    folder.is_open = True
    progress = _report(reconciler)
    assert progress.waiting_for == ("WatchRule ns/rule (not resolved yet)",)
    assert not progress.is_synced
    reconciler.rule_checked(*_RULE, DESTINATION)
    reconciler.rule_checked(*_RULE, DESTINATION)
    assert queue.seconds == [0.0]
    assert _report(reconciler).is_synced
    reconciler.rule_deleted(*_RULE)
    assert not _report(reconciler).is_synced


@pytest.mark.parametrize("seconds", [1.0, 100.0])
def test_a_fight_with_other_writers_is_one_warning(seconds: float) -> None:
    """5.2: pushes that land in it bring no second Event and no second line; a new fight does."""
    folder, group, clock = empty_folder(), WriterGroup(Key("ns", "repo")), ManualClock()
    reconciler = _reconciler(folder, _RequeuedKeys(), clock=clock, group=group)
    folder.is_open = True
    last, reported = "Ready", []
    with capture_logs() as logs:
        for _ in range(3):
            for lost in (1, 2, 3):
                group.record_race("git.example.org/x", lost, clock.monotonic())
            for has_landed in (False, True):
                if has_landed:
                    group.record_success()
                progress = _report(reconciler)
                ready = Condition("Ready", "True", last, "")
                last = progress.reason or "Ready"
                if not reconciler._repeats_race(DESTINATION, progress, [ready]):
                    reported.append(last)
            clock.seconds += seconds
    fights = 1 if seconds < 60.0 else 3
    assert reported == ["PushRaced", "Ready"] * fights
    lines = ["push failed; retrying", "push recovered"] * fights
    assert [row["event"] for row in logs] == lines


def _mirroring_folder() -> Folder:
    """An open folder with one file of ours, which another process pushed."""
    folder = empty_folder()
    folder.is_open, folder.own_paths, folder.index = True, {"base/a"}, {"base/a": "1" * 40}
    return folder


async def test_what_a_late_cache_does_not_show_is_no_second_event() -> None:
    """5.2: transitions are told from the status that was written last."""
    stored = _StoredDestination()
    reconciler = _reconciler(_mirroring_folder(), _RequeuedKeys(), stored=stored)
    first = await reconciler.reconcile(DESTINATION)
    assert {event.reason for event in first.events} == {"SecretsRedacted", "FirstSyncCompleted"}
    rows = runtime_status.build_status({}, first, generation=1, now=ManualClock().now())
    stored.newest_status = rows
    assert (await reconciler.reconcile(DESTINATION)).events == ()


async def test_a_destination_that_is_made_again_has_no_verdict_yet() -> None:
    """What was found of its predecessor says nothing about it, not even until its reconcile."""
    stored, folder = _StoredDestination(), _mirroring_folder()
    reconciler = _reconciler(folder, _RequeuedKeys(), stored=stored)
    await reconciler.reconcile(DESTINATION)
    assert (reconciler.is_ready(DESTINATION), reconciler.is_settled(DESTINATION)) == (True, True)
    stored.uid = "another"
    assert (reconciler.is_ready(DESTINATION), reconciler.is_settled(DESTINATION)) == (False, False)
    folder.is_open = False
    outcome = await reconciler.reconcile(DESTINATION)
    assert outcome.ready is not None
    assert outcome.ready.reason == "Validating"
    assert not reconciler._reported[DESTINATION][0].first_sync_done


async def test_nothing_is_written_while_the_repository_is_unchecked() -> None:
    """REP-1: its address may have changed, and the old one is none of the object any more."""
    reconciler, stopped = _reconciler(_mirroring_folder(), _RequeuedKeys()), list[Key]()
    await reconciler.reconcile(DESTINATION)
    cast("Any", reconciler)._mirror.stop_writing = stopped.append
    cast("Any", reconciler)._repositories.is_unchecked = lambda _: True
    outcome = await reconciler.reconcile(DESTINATION)
    assert outcome.ready is not None
    assert outcome.ready.message == "waiting for GitRepoConfig ns/repo"
    assert stopped == [DESTINATION]
    assert (reconciler.is_ready(DESTINATION), reconciler.is_settled(DESTINATION)) == (False, False)
