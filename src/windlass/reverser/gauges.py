"""Gauges of the mirror that are sampled once a second: queues, streams, pending files, lag.

Run as a task by the controller; counters and histograms are in `metrics`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from windlass.base.clock import Clock
from windlass.objects.names import Key
from windlass.reverser.publish.worker_pool import WorkerPool
from windlass.reverser.watch.stream_registry import StreamRegistry
from windlass.runtime.queue import KeyedQueue
from windlass.telemetry.reverser import ReverserMetrics

_INTERVAL_SECONDS = 1.0


class MirrorGauges:
    """The gauges of one running mirror; all return to zero when nothing is pending."""

    def __init__(
        self,
        metrics: ReverserMetrics,
        registry: StreamRegistry,
        workers: WorkerPool,
        queues: Mapping[str, KeyedQueue[Key]],
        clock: Clock,
    ) -> None:
        self._metrics = metrics
        self._registry = registry
        self._workers = workers
        self._queues = queues
        self._clock = clock
        # States that were exported once; a state without streams must become zero.
        self._known_states: set[str] = set()

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(_INTERVAL_SECONDS)

    def sample(self) -> None:
        """Set every gauge once."""
        self._sample_streams()
        self._sample_folders()
        for kind, queue in self._queues.items():
            self._metrics.queue_depth.set(queue.depth, kind.lower())

    def _sample_streams(self) -> None:
        streams = self._registry.streams.values()
        states = Counter(stream.state for stream in streams)
        # A state without streams has to be exported as zero, else its last value stays.
        for state in self._known_states | states.keys():
            self._metrics.watch_streams.set(states[state], state)
        self._known_states |= states.keys()
        self._metrics.objects_tracked.set(sum(len(stream.tracker) for stream in streams))

    def _sample_folders(self) -> None:
        workers = list(self._workers)
        folders = [folder for worker in workers for _, folder in worker.folders()]
        commits = sum(
            group.unacknowledged_commits for worker in workers for group in worker.groups.values()
        )
        self._metrics.git_commit_queue_size.set(commits)
        self._metrics.repo_branch_active_workers.set(sum(worker.is_active for worker in workers))
        self._metrics.repo_branch_queue_depth.set(sum(folder.pending for folder in folders))
        self._metrics.prune_retained.set(sum(folder.retained for folder in folders))
        opened = [folder.window.opened for folder in folders if folder.window]
        opened += [worker.pushing_since for worker in workers if worker.pushing_since is not None]
        now = self._clock.monotonic()
        self._metrics.watch_lag.set(now - min(opened, default=now))
