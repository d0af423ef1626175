"""No wrong author, whatever users, other webhooks and lost records do."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.strategies.batched import balanced_column, row, rows
from windlass.objects.names import GVR, Identity
from windlass.reverser.attribution import record_join
from windlass.reverser.attribution.record_join import Observation, judge_change
from windlass.reverser.attribution.records import AdmissionRecord, AdmissionRecords, RecordLink
from windlass.reverser.attribution.webhook_coverage import WebhookCoverage
from windlass.reverser.file_operation import Operation

STREAM = GVR("apps", "v1", "deployments")
OTHER = GVR("apps", "v1beta1", "deployments")
USERS = ("alice", "bob", "mallory")
Fate = Literal["stored", "rejected", "dry-run", "stale"]

TIMES = [tenth / 10 for tenth in range(201)]
CONTENTS = balanced_column([None], [b"a" * 16, b"b" * 16])
REPLICAS = balanced_column([None], range(3))
KINDS: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")
RECORD = (
    TIMES,
    USERS,
    KINDS,
    (STREAM, STREAM, OTHER),
    ("u1", "u1", "u1", "u1", "u2"),
    ("1", "1", "1", "2", ""),
    CONTENTS,
    REPLICAS,
    ("", "", "scale", "status"),
    ("x", "x", "x", "x", "y"),
)


def _record(said: tuple[Any, ...]) -> AdmissionRecord:
    *first, content, replicas, subresource, name = said
    return AdmissionRecord(
        *first, content=content, replicas=replicas, subresource=subresource, name=name
    )


def _case(
    said: tuple[Any, ...], rows: list[tuple[Any, ...]]
) -> tuple[Observation, list[AdmissionRecord]]:
    """A change, and records of which most are of its kind: others are never weighed."""
    kind, version, *rest = said
    observation = Observation("u1", kind, version, Identity(STREAM, "", "x"), *rest)
    return observation, [
        _record((*first, kind if same else other, *more))
        for same, *first, other, more in ((*row[:4], row[4:]) for row in rows)
    ]


cases = st.builds(
    _case,
    row(KINDS, (None, "1", "1", "1", "2"), CONTENTS, TIMES, REPLICAS, REPLICAS),
    rows((True, True, True, False), *RECORD, max_size=8),
)


def on_link(observation: Observation, record: AdmissionRecord) -> bool:
    """Whether the record is an attempt of the observed kind on the observed predecessor."""
    creating = observation.operation == "CREATE"
    same_version = record.old_resource_version == observation.previous_resource_version
    return (
        (record.uid, record.name) == (observation.uid, observation.identity.name)
        and record.operation == observation.operation
        and (creating or same_version)
    )


def could_be(observation: Observation, record: AdmissionRecord) -> bool:
    """Whether the record may be that of the change: it agrees, or it cannot be compared."""
    if record.subresource == "scale" and observation.operation == "UPDATE":
        counts = (record.replicas, observation.replicas, observation.previous_replicas)
        return None in counts or counts[0] == counts[1] != counts[2]
    contents = (record.content, observation.content)
    is_comparable = record.gvr == STREAM and None not in contents
    is_whole = observation.operation == "UPDATE" or not record.subresource
    return is_whole and not (is_comparable and contents[0] != contents[1])


@given(cases)
def test_credited_user_is_the_only_one_who_fits(
    case: tuple[Observation, list[AdmissionRecord]],
) -> None:
    """ATT-4: every attempt that could be the true one is by the user who is credited."""
    observation, found = case
    verdict = judge_change(observation, found, lost=False)
    if verdict.actor is None:
        assert verdict.reason
        return
    linked = [one for one in found if on_link(observation, one)]
    assert verdict.actor.user in {one.user for one in linked}
    if observation.operation == "DELETE":
        fresh = [one for one in linked if observation.received - one.time <= 10]
        assert {one.user for one in fresh if not one.subresource} == {verdict.actor.user}
    elif verdict.tier == "chain":
        creating = observation.operation == "CREATE"
        allowed = [one for one in linked if not (creating and one.subresource)]
        assert {one.user for one in allowed} == {verdict.actor.user}
    else:
        possible = {one.user for one in linked if could_be(observation, one)}
        assert possible == {verdict.actor.user}


@given(cases)
def test_record_gaps_suppress_every_verdict(
    case: tuple[Observation, list[AdmissionRecord]],
) -> None:
    """ATT-3: where records may be missing nobody is credited."""
    observation, found = case
    assert judge_change(observation, found, lost=True).actor is None


@given(cases, st.integers(0, 2**16))
def test_order_of_records_does_not_matter(
    case: tuple[Observation, list[AdmissionRecord]], seed: int
) -> None:
    """ATT-6: nearness and order of arrival prove nothing."""
    observation, found = case
    mixed = list(found)
    random.Random(seed).shuffle(mixed)
    before = judge_change(observation, found, lost=False)
    after = judge_change(observation, mixed, lost=False)
    assert (before.tier, before.reason) == (after.tier, after.reason)
    assert (before.actor and before.actor.user) == (after.actor and after.actor.user)


@given(rows(range(101), *RECORD, max_size=60, usual=10))
def test_records_stay_in_bounds_and_vanish_only_with_notice(
    arrivals: list[tuple[Any, ...]],
) -> None:
    """ATT-3: bounds hold at every step; what is gone has expired, is doubled or is known lost."""
    kept = AdmissionRecords(ttl=30.0, max_entries=3, depth=2)
    now = 20.0
    added: list[AdmissionRecord] = []
    for tenths, *said in arrivals:
        record = _record(tuple(said))
        now += tenths / 50
        kept.add(record, now)
        added.append(record)
        assert len(kept) <= 3
        for uid in ("u1", "u2"):
            held = kept.candidates(uid, now)
            assert all(one.time > now - 30.0 for one in held)
            links = [one.link for one in held]
            assert all(links.count(link) <= 2 for link in links)
    for record in added:
        assert explained(kept, record, now)


def explained(kept: AdmissionRecords, record: AdmissionRecord, now: float) -> bool:
    """Whether an added record is held, expired, replaced by a newer one or reported lost."""
    if record.time <= now - 30.0 or kept.has_gap(record.time, now, record.link):
        return True
    return any(
        one.link == record.link and one.user == record.user and one.time >= record.time
        for one in kept.candidates(record.uid, now)
    )


@dataclass
class Live:
    """A stored object."""

    uid: str
    version: str
    body: int = 0
    replicas: int = 1
    before: str = ""
    changed: float = 0.0


@dataclass(frozen=True)
class Event:
    """An event of the watch: `user` is the real author, None for a status write."""

    uid: str
    version: str
    user: str | None
    operation: Operation
    content: bytes
    replicas: int


def digest(body: int, replicas: int, gvr: GVR = STREAM) -> bytes:
    """The digest of the cleaned object in one version."""
    return blake2b(f"{gvr} {body} {replicas}".encode(), digest_size=16).digest()


@dataclass
class Server:
    """An API server with our webhook in front of it and one watch behind it."""

    records: AdmissionRecords
    now: float = 1000.0
    counter: int = 0
    objects: dict[str, Live] = field(default_factory=dict)
    events: deque[tuple[float, Event]] = field(default_factory=deque)
    tracked: dict[str, tuple[str, int]] = field(default_factory=dict)
    losing: bool = False
    # While the webhook is busy, the records of answered requests wait in it.
    busy: bool = False
    waiting: deque[AdmissionRecord] = field(default_factory=deque)
    credited: int = 0
    unresolved: int = 0

    def version(self) -> str:
        self.counter += 1
        return str(self.counter)

    def admit(self, record: AdmissionRecord) -> None:
        """The webhook was called; its record may get lost, and then the time is known."""
        if self.losing:
            self.losing = False
            self.records.add_gap(self.now, self.now)
        else:
            self.waiting.append(record)
        self.send_records()

    def send_records(self) -> None:
        """The webhook sends what waits, unless it is busy."""
        while self.waiting and not self.busy:
            self.records.add(self.waiting.popleft(), self.now)

    def show(self, one: Live, user: str | None, operation: Operation) -> None:
        content = digest(one.body, one.replicas)
        event = Event(one.uid, one.version, user, operation, content, one.replicas)
        self.events.append((self.now, event))

    def request(
        self, user: str, operation: Operation, link: RecordLink, gvr: GVR = STREAM, **given: Any
    ) -> None:
        uid, version = link
        self.admit(AdmissionRecord(self.now, user, operation, gvr, uid, version, **given))

    def create(self, user: str, name: str, body: int, fate: Fate, gvr: GVR) -> None:
        uid = f"{name}-{self.version()}"
        if fate != "dry-run":
            self.request(user, "CREATE", (uid, ""), gvr, content=digest(body, 1, gvr))
        if fate == "stored" and name not in self.objects:
            one = self.objects[name] = Live(uid, self.version(), body, changed=self.now)
            self.show(one, user, "CREATE")

    def update(self, user: str, name: str, body: int, fate: Fate, gvr: GVR) -> None:
        one = self.objects[name]
        self.attempt(user, one, fate, gvr, content=digest(body, one.replicas, gvr))
        if fate == "stored" and body != one.body:
            one.body = body
            self.store(one, user)

    def shadowed(self, user: str, name: str, body: int) -> None:
        """Mallory is refused the same change that is then stored, whose record is lost or late."""
        self.update("mallory", name, body, "rejected", STREAM)
        self.losing, self.busy = body == 2, body != 2
        self.now += 0.5
        self.update(user, name, body, "stored", STREAM)

    def scale(self, user: str, name: str, replicas: int, fate: Fate) -> None:
        one = self.objects[name]
        self.attempt(user, one, fate, STREAM, subresource="scale", replicas=replicas)
        if fate == "stored" and replicas != one.replicas:
            one.replicas = replicas
            self.store(one, user)

    def attempt(self, user: str, one: Live, fate: Fate, gvr: GVR, **given: Any) -> None:
        """Admission of an update; a stale attempt still has the previous version."""
        if fate == "dry-run":
            return
        stale = fate == "stale" and one.before and self.now - one.changed < 1.0
        version = one.before if stale else one.version
        self.request(user, "UPDATE", (one.uid, version), gvr, **given)

    def delete(self, user: str, name: str, fate: Fate) -> None:
        one = self.objects[name]
        if fate != "dry-run":
            self.request(user, "DELETE", (one.uid, one.version))
        if fate == "stored":
            del self.objects[name]
            gone = Live(one.uid, self.version(), one.body, one.replicas)
            self.show(gone, user, "DELETE")
            # Somebody else deletes in the same moment, on what the cache still shows.
            if one.body == 2:
                self.now += 0.01
                self.request("mallory", "DELETE", (one.uid, one.version))

    def store(self, one: Live, user: str | None) -> None:
        one.before, one.version, one.changed = one.version, self.version(), self.now
        self.show(one, user, "UPDATE")

    def deliver(self, older_than: float) -> None:
        while self.events and self.now - self.events[0][0] >= older_than:
            self.judge(self.events.popleft()[1])

    def judge(self, event: Event) -> None:
        known = self.tracked.get(event.uid)
        self.tracked[event.uid] = event.version, event.replicas
        if event.user is None:
            return
        observation = Observation(
            event.uid,
            event.operation,
            known[0] if known else None,
            Identity(STREAM, "", ""),
            event.content,
            self.now,
            event.replicas,
            known[1] if known else None,
        )
        for later in (0.0, 5.0):
            verdict = record_join.attribute_change(
                observation,
                self.records,
                WebhookCoverage(),
                now=self.now + later,
                recorded_until=self.waiting[0].time if self.waiting else self.now + 0.01,
            )
            assert verdict.actor is None or verdict.actor.user == event.user, (event, verdict)
        self.credited += verdict.actor is not None
        self.unresolved += verdict.actor is None


def take(server: Server, step: tuple[str, str, str, int, Fate, GVR], tenths: int) -> None:
    """One step: a user writes, a record gets lost, or time passes."""
    action, user, name, value, fate, gvr = step
    server.now += tenths / 10
    server.deliver(15.0)
    if action == "create":
        server.create(user, name, value, fate, gvr)
    elif action == "deliver":
        server.deliver(0.0)
    elif action == "lose":
        server.losing = True
    elif action == "busy":
        server.busy = not server.busy
        server.send_records()
    elif name in server.objects:
        write(server, step)


def write(server: Server, step: tuple[str, str, str, int, Fate, GVR]) -> None:
    """A write of an object that exists."""
    action, user, name, value, fate, gvr = step
    if action == "update":
        server.update(user, name, value, fate, gvr)
    elif action == "shadowed":
        server.shadowed(user, name, value)
    elif action == "scale":
        server.scale(user, name, value, fate)
    elif action == "delete":
        server.delete(user, name, fate)
    else:
        server.store(server.objects[name], None)


ACTIONS = (
    *("create", "update", "update", "update", "shadowed"),
    *("scale", "delete", "status", "deliver", "lose", "busy"),
)
FATES: tuple[Fate, ...] = ("stored", "stored", "rejected", "dry-run", "stale")
steps = rows(
    ACTIONS,
    USERS,
    ("x", "y"),
    range(3),
    FATES,
    (STREAM, STREAM, OTHER),
    (0, 0, 1, 2, 20, 60),
    max_size=60,
    usual=10,
)


LATE = [
    ("create", "alice", "x", 0, "stored", STREAM, 20),
    ("shadowed", "bob", "x", 1, "stored", STREAM, 20),
]


@settings(max_examples=300, deadline=None)
@example(LATE, (1000, 10))
@given(steps, st.sampled_from([(3, 2), (1000, 10)]))
def test_a_wrong_author_never_appears(
    simulated: list[tuple[Any, ...]], bounds: tuple[int, int]
) -> None:
    """P6: rejected, stale, dry-run, lost and late attempts never lend their user to a change."""
    entries, depth = bounds
    server = Server(AdmissionRecords(ttl=60.0, max_entries=entries, depth=depth))
    for *step, tenths in simulated:
        take(server, tuple(step), tenths)
    server.deliver(0.0)


@settings(deadline=None)
@given(rows(USERS, range(6), max_size=60, usual=10))
def test_honest_writes_are_all_credited(writes: list[tuple[str, int]]) -> None:
    """A57: fast writes of one object by changing users all get their author."""
    server = Server(AdmissionRecords())
    server.create("alice", "x", -1, "stored", STREAM)
    stored = 1
    for user, body in writes:
        server.now += 0.01
        stored += server.objects["x"].body != body
        server.update(user, "x", body, "stored", STREAM)
    server.now += 0.2
    server.deliver(0.0)
    assert (server.credited, server.unresolved) == (stored, 0)
