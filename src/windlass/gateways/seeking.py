"""Looks for what an IgnitionSync needs from outside: its commit and its Secrets.

While no new commit is to be had, the one that agents were told stays in force; a pause
asks nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.api.kinds.ignitionsync import IgnitionSync
from windlass.base import clock
from windlass.base.errors import Waiting, WindlassError
from windlass.gateways import credentials
from windlass.gateways.asking import Answer, Asking, Question
from windlass.gateways.decide import metadata, targets
from windlass.gateways.decide.metadata import Source
from windlass.gateways.faults import Faults
from windlass.gateways.observe import Snapshot
from windlass.git.format.refs import ResolvedRef
from windlass.git.format.remote import Remote
from windlass.kube.api import Api


@dataclass(frozen=True, slots=True)
class Sought:
    """The commit in force, and what the newest look for it came to."""

    source: Source | None
    resolution: ResolvedRef | None = None
    failure: WindlassError | None = None
    due_seconds: float | None = None


class Seeking:
    """The looks of all passes."""

    def __init__(self, api: Api, asking: Asking) -> None:
        self._api = api
        self._asking = asking

    async def commit(
        self, seen: Snapshot, sync: IgnitionSync, remote: Remote, faults: Faults
    ) -> Sought:
        """The commit in force, after a look at the remote where one is due."""
        told = metadata.source_of(seen.told)
        sought = Sought(told)
        if sync.spec.paused:
            return sought
        try:
            with faults.about("reading the Git Secret"):
                answer = await self._ask(seen, sync, remote)
                sought = self._judged(sync, remote, told, answer)
        except Waiting as missing:
            return Sought(told, failure=missing, due_seconds=missing.after)
        return sought

    async def api_key(self, sync: IgnitionSync, faults: Faults) -> Waiting | None:
        """What is missing for speaking to gateways, None if nothing is."""
        if sync.spec.ignition.scan.mode == "Off":
            return None
        try:
            with faults.about("reading the API key"):
                await credentials.check_api_key(self._api, sync)
        except Waiting as missing:
            return missing
        return None

    async def _ask(self, seen: Snapshot, sync: IgnitionSync, remote: Remote) -> Answer:
        found = await credentials.of_git(self._api, sync)
        polling = sync.spec.polling
        question = Question(
            remote,
            found.fingerprint,
            sync.spec.git.ref,
            seen.request,
            sync.metadata.generation,
            self._lost(seen),
        )
        return await self._asking.ask(
            seen.key,
            question,
            found,
            interval_seconds=clock.parse_duration(polling.interval) if polling.enabled else None,
        )

    def _lost(self, seen: Snapshot) -> str:
        """The commit that was told, if it is not to be had any more; else nothing."""
        told = metadata.source_of(seen.told)
        if told is None:
            return ""
        is_lost = seen.misses_commit or self._asking.is_lost(seen.key, told.commit)
        return told.commit if is_lost else ""

    def _judged(
        self, sync: IgnitionSync, remote: Remote, told: Source | None, answer: Answer
    ) -> Sought:
        due = self._asking.in_seconds(answer)
        if answer.found is None:
            return Sought(told, failure=answer.error, due_seconds=due)
        source = targets.source_of(sync.spec, remote.url, sync.spec.git.ref, answer.found.commit)
        return Sought(source, answer.found, due_seconds=due)
