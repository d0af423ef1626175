"""Leader election by a coordination.k8s.io Lease: carries out what `election` decides.

One request per renewal: a leader writes on the version it knows and reads only when
that is refused. A request that fails or hangs changes nothing here; its time runs
out. Whoever must not act without the lease asks `held` right before acting: it is
plain arithmetic on the monotonic clock, so it is False at once after a pause.

Names of lease holders that tell whether a local one is dead.

`host_world_pid_nonce`: `world` stands for this boot of this machine and this process
namespace, so a pid is only looked up where it means something. A holder of another
world, or of a form we did not write, is never said to be dead: its lease expires.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog

from windlass.base import failpoint
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import Retryable
from windlass.kube.errors import AlreadyExists, Conflict, NotFound
from windlass.objects.names import GVR, Object
from windlass.runtime.election import Candidacy, Record, Step, Terms, nobody_is_dead

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class Holder:
    """One process as a lease names it."""

    host: str
    world: str
    pid: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.host}_{self.world}_{self.pid}_{self.nonce}"

    @classmethod
    def local(cls) -> Holder:
        """The running process; the nonce tells it from an earlier one with its pid."""
        return cls(socket.gethostname(), _world(), os.getpid(), secrets.token_hex(4))

    @classmethod
    def parse(cls, identity: str) -> Holder | None:
        parts = identity.rsplit("_", 3)
        if len(parts) != 4 or not parts[2].isdecimal():
            return None
        return cls(parts[0], parts[1], int(parts[2]), parts[3])

    def outlived(self, identity: str) -> bool:
        """Whether `identity` is a process of our world that no longer runs."""
        return self.judges(identity, runs=_runs)

    def judges(self, identity: str, *, runs: Callable[[int], bool]) -> bool:
        other = Holder.parse(identity)
        if other is None or not other.world or (other.host, other.world) != (self.host, self.world):
            return False
        if other.pid == self.pid:
            return other.nonce != self.nonce
        return not runs(other.pid)


def _world() -> str:
    """Empty where the machine does not say which world this is: then nobody is judged."""
    try:
        identity = f"{_BOOT.read_text()}{_PROCESSES.readlink()}"
    except OSError:
        return ""
    return hashlib.blake2b(identity.encode(), digest_size=4).hexdigest()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


LEASES = GVR("coordination.k8s.io", "v1", "leases")
MARGIN_SECONDS = 2.0

_FIELD_MANAGER = "windlass-election"
_JITTER = 0.2
_RELEASE_ATTEMPTS = 3
_SHORTEST_PAUSE = 0.05

_log: Any = structlog.get_logger()


class LeaseApi(Protocol):
    """The part of `kube.api.Api` that an election needs."""

    async def get(self, gvr: GVR, name: str, namespace: str = "") -> Object: ...

    async def create(self, gvr: GVR, obj: Object, *, field_manager: str) -> Object: ...

    async def replace(self, gvr: GVR, obj: Object, *, field_manager: str) -> Object: ...


@dataclass(frozen=True, slots=True)
class LeaseName:
    """Where the lease lies."""

    namespace: str
    name: str


class LeaderElection:
    """One candidate for one lease; `acquired` and `lost` mirror whether it leads."""

    def __init__(
        self,
        api: LeaseApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        duration: int = 15,
        renew: float = 10.0,
        retry: float = 2.0,
        holder_is_dead: Callable[[str], bool] = nobody_is_dead,
        on_failure: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.acquired = asyncio.Event()
        self.lost = asyncio.Event()
        self.lost.set()
        self.failures = 0
        self.answered = False
        """Whether the API server answered the last request."""
        self._api = api
        self._place = LeaseName(namespace, name)
        self._candidacy = Candidacy(
            identity, Terms(duration, renew, retry), holder_is_dead=holder_is_dead
        )
        self._on_failure = on_failure
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._lease: Object | None = None
        self._busy = asyncio.Lock()

    @property
    def identity(self) -> str:
        return self._candidacy.identity

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen."""
        record = self._candidacy.record
        return record.holder if record is not None else ""

    def held(self, margin_seconds: float = MARGIN_SECONDS) -> bool:
        """Whether the lease is surely ours for `margin_seconds` from now."""
        return self._candidacy.held(self._clock.monotonic(), margin_seconds)

    async def run(self) -> None:
        """Stand for election until `release`; leading and losing alternate as they come."""
        while not self._candidacy.resigned:
            await self.attempt()
            await asyncio.sleep(self._pause())

    async def attempt(self) -> None:
        """One round: look where needed, decide, write; never raises for a failing server."""
        async with self._busy:
            if self._candidacy.resigned:
                return
            try:
                async with asyncio.timeout(self._patience()):
                    await self._round()
                self.answered = True
            except (Conflict, AlreadyExists):
                self.answered = True
                _log.info("lease written by another", **self._who())
                self._lease = None
            except (Retryable, TimeoutError) as error:
                self._failed(error)
            self._candidacy.lapse(self._clock.monotonic())
            self._announce()

    async def release(self) -> None:
        """Stop leading at once and empty the lease, so that the next need not wait."""
        self._candidacy.resign()
        self._announce()
        async with self._busy:
            try:
                async with asyncio.timeout(self._candidacy.terms.renew_seconds / 2):
                    await self._empty()
            except (Retryable, TimeoutError) as error:
                # It expires by itself; the next leader waits for that.
                _log.warning("lease not released", error=str(error) or "timed out", **self._who())

    def _failed(self, error: Retryable | TimeoutError) -> None:
        self.failures += 1
        self.answered = False
        self._on_failure()
        self._lease = None
        if isinstance(error, NotFound):
            # Deleted by hand: whoever comes first may create it, so it is no longer ours.
            self._candidacy.observe(None, self._clock.monotonic())
        _log.warning("lease request failed", error=str(error) or "timed out", **self._who())

    async def _round(self) -> None:
        now = self._clock.monotonic()
        self._candidacy.lapse(now)
        if self._lease is None or not self._candidacy.leading(now):
            await self._look()
        step = self._candidacy.step(self._clock.monotonic())
        if step is Step.WAIT:
            return
        await self._write(step)

    async def _look(self) -> None:
        try:
            self._lease = await self._api.get(LEASES, self._place.name, self._place.namespace)
        except NotFound:
            self._lease = None
        record = _record(self._lease) if self._lease is not None else None
        self._candidacy.observe(record, self._clock.monotonic())

    async def _write(self, step: Step) -> None:
        started = self._clock.monotonic()
        body = self._body(self.identity)
        failpoint.reach("runtime.lease.before")
        if step is Step.CREATE:
            lease = await self._api.create(LEASES, body, field_manager=_FIELD_MANAGER)
        else:
            lease = await self._api.replace(LEASES, body, field_manager=_FIELD_MANAGER)
        failpoint.reach("runtime.lease.after")
        self._lease = lease
        self._candidacy.wrote(_record(lease), started, self._clock.monotonic())

    async def _empty(self) -> None:
        """Write an empty holder, as long as the lease is still ours."""
        for _ in range(_RELEASE_ATTEMPTS):
            await self._look()
            if self._lease is None or self.holder != self.identity:
                return
            failpoint.reach("runtime.lease.release.before")
            try:
                await self._api.replace(LEASES, self._body(""), field_manager=_FIELD_MANAGER)
            except Conflict:
                continue
            failpoint.reach("runtime.lease.release.after")
            return

    def _body(self, holder: str) -> Object:
        """The lease as we want it, on top of what was last read, version included."""
        moment = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: Object = dict((self._lease or {}).get("spec") or {})
        if spec.get("holderIdentity") != holder:
            spec["acquireTime"] = moment
            spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + bool(self._lease)
        spec["holderIdentity"] = holder
        spec["renewTime"] = moment
        spec["leaseDurationSeconds"] = self._candidacy.terms.duration_seconds
        metadata = {"namespace": self._place.namespace, "name": self._place.name}
        return {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": (self._lease or {}).get("metadata") or metadata,
            "spec": spec,
        }

    def _patience(self) -> float:
        """How long a round may take: a leader's ends with its renew deadline."""
        terms = self._candidacy.terms
        longest = max(terms.retry_seconds, terms.renew_seconds / 2)
        now, deadline = self._clock.monotonic(), self._candidacy.give_up_at()
        if deadline is None or deadline <= now:
            return longest
        return min(longest, deadline - now)

    def _pause(self) -> float:
        """Time to the next round; candidates spread out, a leader keeps its beat."""
        terms, now = self._candidacy.terms, self._clock.monotonic()
        if not self._candidacy.leading(now):
            return terms.retry_seconds * self._rng.uniform(1.0, 1.0 + _JITTER)
        left = (self._candidacy.give_up_at() or now) - now
        return min(terms.retry_seconds, max(left, _SHORTEST_PAUSE))

    def _announce(self) -> None:
        leads = self._candidacy.leading(self._clock.monotonic())
        if leads and not self.acquired.is_set():
            _log.info("leading", **self._who())
            self.lost.clear()
            self.acquired.set()
        elif not leads and self.acquired.is_set():
            _log.warning("no longer leading", holder=self.holder, **self._who())
            self.acquired.clear()
            self.lost.set()

    def _who(self) -> dict[str, str]:
        place = f"{self._place.namespace}/{self._place.name}"
        return {"lease": place, "identity": self.identity}


def _record(lease: Object) -> Record:
    spec = lease.get("spec") or {}
    return Record(
        holder=spec.get("holderIdentity") or "",
        duration_seconds=spec.get("leaseDurationSeconds") or 0,
        version=lease["metadata"]["resourceVersion"],
    )
