"""The experiment behind attribution: every kind is written by known people, and judged.

Each kind lives the same life: created in three ways, changed in six, scaled where that is
served, attempted in vain (no-op, dry run, conflict, refusal), raced over and deleted. The
ground truth is the resourceVersion that the API server returned to whoever wrote. Beside
it stand our own recording webhook and a raw watch of each type, joined by the operator's
own judge.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry

from tests.support.join_samples import LABEL, Sample
from tests.support.rejecting_webhook import REFUSED
from windlass.base.clock import SystemClock
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import ApiError, Conflict, NotFound
from windlass.kube.follow import Observed, Scope, SnapshotComplete, follow
from windlass.objects.json import JSON, Object
from windlass.reverser.decide import decode, sanitise
from windlass.reverser.decide.attribution import Observation, Verdict
from windlass.reverser.decide.records import Records
from windlass.reverser.decide.transition import Operation
from windlass.reverser.sighting import Lens, Sighting
from windlass.reverser.tally import Tally
from windlass.reverser.tracking import Tracked, Tracking
from windlass.reverser.witness import testimony
from windlass.reverser.witness.frames import Witnessed
from windlass.reverser.witnesses import Witnesses
from windlass.telemetry.metrics import Metrics
from windlass.web.admission import AdmissionRequest

_KEY = b"a key that only this experiment knows"
_MANAGER = "experiment"
_TRIES = 8
_SETTLE_SECONDS = 45.0
Write = Callable[[Api, int], Awaitable[Object]]


@dataclass(frozen=True)
class Writer:
    """Somebody with a certificate."""

    name: str
    api: Api


@dataclass
class Truth:
    """Who really did what, by what the API server answered."""

    writers: dict[tuple[str, str], str] = field(default_factory=dict)
    deleters: dict[str, str] = field(default_factory=dict)
    tried: int = 0
    refused: int = 0

    def wrote(self, user: str, obj: Object) -> None:
        metadata = obj["metadata"]
        self.writers[metadata["uid"], metadata["resourceVersion"]] = user


@dataclass(frozen=True)
class Change:
    """A change seen in a stream; `first` is the verdict of the moment it arrived."""

    observation: Observation
    resource_version: str
    cleaned: Object
    first: Verdict
    last: Verdict | None = None


class Recorder:
    """Takes down admission calls as the witness does, and keeps the objects to explain with."""

    def __init__(self) -> None:
        self.told: dict[str, list[tuple[Witnessed, bytes]]] = defaultdict(list)
        self.witnesses = Witnesses(Records(), Tally(Metrics(CollectorRegistry())), SystemClock())
        self._oath = testimony.Oath(_KEY, frozenset(), frozenset())

    def hear(self, request: AdmissionRequest) -> None:
        record = testimony.witnessed(request, self._oath, time.monotonic())
        if record is not None:
            self.witnesses.record(record)
            self.told[record.uid].append((record, request.object))


class Watcher:
    """The raw stream of one type, tracked as the operator tracks it."""

    def __init__(self, sample: Sample, token: str, recorder: Recorder) -> None:
        self.changes: list[Change] = []
        self.seen: set[tuple[str, str]] = set()
        self.gone: set[str] = set()
        self.synced = asyncio.Event()
        self._sample = sample
        self._token = token
        self._recorder = recorder
        self._tracking = Tracking()
        self._lens = Lens(_KEY, frozenset(), noise_filter=False)

    async def run(self, connection: Connection) -> None:
        scope = Scope(self._sample.served.gvr, self._sample.namespace)
        async with aclosing(follow(connection, scope)) as items:
            async for item in items:
                if isinstance(item, SnapshotComplete):
                    self.synced.set()
                elif isinstance(item, Observed):
                    self._observe(item)

    def _observe(self, item: Observed) -> None:
        served = self._sample.served
        sighting = self._lens.look(served.gvr, served.kind, item.object)
        assert isinstance(sighting, Sighting), sighting
        labels = sighting.cleaned["metadata"].get("labels") or {}
        if not served.namespaced and labels.get(LABEL) != self._token:
            return
        leaving = item.type == "DELETED" or sighting.terminating
        known = self._tracking.get(sighting.identity.key)
        known = known if known is not None and known.uid == sighting.uid else None
        digest = b"" if leaving else sighting.digest
        if not item.initial and (known is None or known.digest != digest):
            self._changed(sighting, known, leaving=leaving)
        tracked = Tracked(sighting.uid, sighting.resource_version, digest, sighting.replicas)
        self._tracking.put(sighting.identity.key, tracked)
        self.seen.add((sighting.uid, sighting.resource_version))
        if leaving:
            self.gone.add(sighting.uid)

    def _changed(self, sighting: Sighting, known: Tracked | None, *, leaving: bool) -> None:
        appeared: Operation = "CREATE" if known is None else "UPDATE"
        observation = Observation(
            uid=sighting.uid,
            operation="DELETE" if leaving else appeared,
            previous_resource_version=known.resource_version if known else None,
            previous_replicas=known.replicas if known else None,
            version=self._sample.served.gvr.api_version,
            content=sighting.digest,
            replicas=sighting.replicas,
            received=time.monotonic(),
        )
        first = self._recorder.witnesses.judge(observation)
        change = Change(observation, sighting.resource_version, sighting.cleaned, first)
        self.changes.append(change)

    async def settle(self, truth: Truth) -> None:
        """Wait until everything that was written has been seen, then judge it once more."""
        end = time.monotonic() + _SETTLE_SECONDS
        while missing := self._missing(truth):
            assert time.monotonic() < end, f"{self._sample.label}: not seen: {missing}"
            await asyncio.sleep(0.02)
        judge = self._recorder.witnesses.judge
        self.changes = [replace(one, last=judge(one.observation)) for one in self.changes]

    def _missing(self, truth: Truth) -> list[object]:
        unseen = [key for key in truth.writers if key not in self.seen]
        return [*unseen, *(truth.deleters.keys() - self.gone)]


class Life:
    """What happens to the objects of one kind."""

    def __init__(self, sample: Sample, people: Sequence[Writer]) -> None:
        self.truth = Truth()
        self._sample = sample
        self._gvr = sample.served.gvr
        self._numbers = itertools.count(1)
        self._turns = itertools.cycle(people)
        self._people = people

    async def lived(self) -> None:
        await self._plain()
        await self._applied()
        if not self._sample.fixed_names:
            await self._delete(await self._done(self._create("", generate=True)))
        for other in self._sample.other_versions:
            await self._foreign(replace(self._sample, served=other))

    async def _plain(self) -> None:
        born = await self._done(self._create("plain"))
        await self._done(self._merge(born))
        await self._done(self._label(born))
        await self._done(self._apply("plain"))
        await self._in_vain(born)
        await self._done(self._replace(born))
        await self._scaled(born)
        await self._raced(born)
        await self._delete(born)

    async def _applied(self) -> None:
        held = {"finalizers": ["example.org/hold"]}
        born = await self._done(self._apply("applied", **held))
        await self._done(self._apply("applied", **held))
        await self._delete(born)
        await self._attempt(self._merge_of(born, {"metadata": {"finalizers": None}}))

    async def _foreign(self, other: Sample) -> None:
        """The same kind written in a version that is not the one watched."""
        born = await self._done(self._create("foreign"))
        path = (other.served.gvr, born["metadata"]["name"])
        seen = await self._people[0].api.get(*path, self._sample.namespace)

        async def create(api: Api, number: int) -> Object:
            body = other.like(sanitise.cleaned(seen), "abroad", number)
            return await api.create(other.served.gvr, body, field_manager=_MANAGER)

        await self._done(self._merge(born, other))
        await self._done(self._merge(born, other))
        abroad = await self._done(create)
        await self._delete(born)
        await self._delete(abroad)

    async def _in_vain(self, born: Object) -> None:
        """Attempts that change nothing: the version they name is that of the next real write."""
        number = next(self._numbers) - 1
        again = self._sample.named("plain", number)
        other = self._sample.named("plain", number + 500)
        for writer in self._people:
            with suppress(ApiError):
                await writer.api.apply(self._gvr, again, field_manager=_MANAGER)
            with suppress(ApiError):
                await writer.api.apply(self._gvr, other, field_manager=_MANAGER, dry_run=True)
            stale = sanitise.cleaned(born)
            stale["metadata"]["resourceVersion"] = born["metadata"]["resourceVersion"]
            stale["metadata"].setdefault("annotations", {})["example.org/stale"] = "yes"
            with suppress(Conflict):
                await writer.api.replace(self._gvr, stale, field_manager=_MANAGER)
                raise AssertionError(f"{self._sample.label}: a stale replace was accepted")
            self.truth.tried += 3

    async def _scaled(self, born: Object) -> None:
        name, space = born["metadata"]["name"], self._sample.namespace
        try:
            await self._people[0].api.get(self._gvr, name, space, subresource="scale")
        except NotFound:
            return

        async def scale(api: Api, number: int) -> Object:
            patch: Object = {"spec": {"replicas": number % 3}}
            return await api.merge_patch(
                self._gvr, name, patch, space, field_manager=_MANAGER, subresource="scale"
            )

        await self._done(scale)
        await self._done(scale)

    async def _raced(self, born: Object) -> None:
        """Both write at once: whoever loses is admitted again by the server's own retry."""
        await asyncio.gather(*(self._try(one, self._merge(born)) for one in self._people * 2))

    async def _delete(self, born: Object) -> None:
        async def delete(api: Api, number: int) -> Object:
            metadata = born["metadata"]
            await api.delete(self._gvr, metadata["name"], self._sample.namespace)
            return {}

        self.truth.deleters[born["metadata"]["uid"]] = await self._attempt(delete)

    def _create(self, role: str, *, generate: bool = False) -> Write:
        async def create(api: Api, number: int) -> Object:
            body = self._sample.named(role, number)
            if generate:
                del body["metadata"]["name"]
                body["metadata"]["generateName"] = "generated-"
            return await api.create(self._gvr, body, field_manager=_MANAGER)

        return create

    def _apply(self, role: str, **metadata: JSON) -> Write:
        async def apply(api: Api, number: int) -> Object:
            body = self._sample.named(role, number)
            body["metadata"] |= metadata
            return await api.apply(self._gvr, body, field_manager=_MANAGER)

        return apply

    def _merge(self, born: Object, sample: Sample | None = None) -> Write:
        async def merge(api: Api, number: int) -> Object:
            patch: Object = {"metadata": {"annotations": {"example.org/merged": str(number)}}}
            return await self._merge_of(born, patch, sample)(api, number)

        return merge

    def _merge_of(self, born: Object, patch: Object, sample: Sample | None = None) -> Write:
        gvr = (sample or self._sample).served.gvr
        name, space = born["metadata"]["name"], self._sample.namespace
        return lambda api, _: api.merge_patch(gvr, name, patch, space, field_manager=_MANAGER)

    def _label(self, born: Object) -> Write:
        name, space = born["metadata"]["name"], self._sample.namespace

        async def label(api: Api, number: int) -> Object:
            path = "/metadata/labels/example.org~1patched"
            patch: list[Object] = [{"op": "add", "path": path, "value": f"n{number}"}]
            return await api.json_patch(self._gvr, name, patch, space, field_manager=_MANAGER)

        return label

    def _replace(self, born: Object) -> Write:
        async def replaced(api: Api, number: int) -> Object:
            found = await api.get(self._gvr, born["metadata"]["name"], self._sample.namespace)
            found["metadata"].setdefault("annotations", {})["example.org/replaced"] = str(number)
            return await api.replace(self._gvr, found, field_manager=_MANAGER)

        return replaced

    async def _done(self, write: Write) -> Object:
        found: list[Object] = []

        async def keep(api: Api, number: int) -> Object:
            found[:] = [await write(api, number)]
            return found[0]

        self.truth.wrote(await self._attempt(keep), found[0])
        return found[0]

    async def _attempt(self, write: Write) -> str:
        """Who succeeded with `write`; after a refusal the other one tries, with other content."""
        for _ in range(_TRIES):
            writer = next(self._turns)
            if await self._tried(writer, write) is not None:
                return writer.name
        raise AssertionError(f"{self._sample.label}: {_TRIES} attempts failed")

    async def _try(self, writer: Writer, write: Write) -> None:
        obj = await self._tried(writer, write)
        if obj is not None:
            self.truth.wrote(writer.name, obj)

    async def _tried(self, writer: Writer, write: Write) -> Object | None:
        self.truth.tried += 1
        try:
            return await write(writer.api, next(self._numbers))
        except Conflict:
            return None
        except ApiError as error:
            assert REFUSED in error.message, f"{self._sample.label}: {error}"
            self.truth.refused += 1
            return None


@dataclass
class Row:
    """What became of one kind; the table is made of these."""

    kind: str
    tried: int = 0
    refused: int = 0
    ours: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    differing: set[str] = field(default_factory=set)


def row(sample: Sample, life: Life, watcher: Watcher, recorder: Recorder) -> Row:
    """Holds every verdict of one kind against the truth."""
    found = Row(sample.label, life.truth.tried, life.truth.refused)
    for change in watcher.changes:
        user = _writer(life.truth, change)
        names = {verdict.actor.user for verdict in (change.first, change.last) if verdict
                 and verdict.actor}
        if user is None:
            wrong = names & set(life.truth.writers.values())
        else:
            wrong = names - {user}
        found.wrong += [f"{change.observation.operation} credited to {one}, was {user}"
                        for one in sorted(wrong)]
        assert change.last is not None
        counter = found.others if user is None else found.ours
        counter[change.last.reason or change.last.tier] += 1
        if user is not None:
            found.differing |= differences(change, user, recorder)
    return found


def differences(change: Change, user: str, recorder: Recorder) -> set[str]:
    """Where the admitted object differs from the watched one, both cleaned."""
    observation = change.observation
    if observation.operation == "DELETE":
        return set()
    admitted = [
        body
        for record, body in recorder.told[observation.uid]
        if (record.user, record.operation, record.subresource) == (user, observation.operation, "")
        and (record.uid, record.old_resource_version) == observation.link
        and f"{record.group}/{record.version}".lstrip("/") == observation.version
    ]
    found = [
        set(paths(sanitise.cleaned(decode.decode(body)), change.cleaned)) for body in admitted
    ]
    return min(found, key=len, default=set())


def paths(one: JSON, other: JSON, place: str = "") -> Iterable[str]:
    """The places in which two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from paths(one.get(key), other.get(key), f"{place}.{key}")
    elif one != other:
        yield place


def _writer(truth: Truth, change: Change) -> str | None:
    if change.observation.operation == "DELETE":
        return truth.deleters.get(change.observation.uid)
    return truth.writers.get((change.observation.uid, change.resource_version))
