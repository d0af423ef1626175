"""Leader election by a coordination.k8s.io Lease: carries out the steps that `election` decides.

The controller role runs one `LeaderElection`. A leader sends one request per renewal: it writes
on the version it knows and reads only when that is refused. A request that fails or hangs changes
nothing here; the lease expires. Code that must not act without the lease checks `held`
right before acting: it is plain arithmetic on the monotonic clock, so it is False at once after
the process was paused.

Lease holders are named `host_world_pid_nonce`, so that a dead local holder can be recognized:
`world` stands for this boot of this machine and this pid namespace, so a pid is only looked up
where it means something. A holder of another world, or a name of another form, is never
considered dead: its lease expires.
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
from windlass.objects.resources import LEASES
from windlass.runtime.election import Candidacy, Record, Step, Terms, assume_alive

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


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
        """The running process; the nonce distinguishes it from an earlier one with its pid."""
        return cls(socket.gethostname(), _world(), os.getpid(), secrets.token_hex(4))

    @classmethod
    def parse(cls, identity: str) -> Holder | None:
        parts = identity.rsplit("_", 3)
        if len(parts) != 4 or not parts[2].isdecimal():
            return None
        return cls(parts[0], parts[1], int(parts[2]), parts[3])

    def is_known_dead(self, identity: str) -> bool:
        """Whether `identity` is a process of our world that no longer runs."""
        return self.is_dead_given(identity, runs=_is_running)

    def is_dead_given(self, identity: str, *, runs: Callable[[int], bool]) -> bool:
        """The same, where `runs` decides which pids are running."""
        other = Holder.parse(identity)
        if other is None or not other.world or (other.host, other.world) != (self.host, self.world):
            return False
        if other.pid == self.pid:
            return other.nonce != self.nonce
        return not runs(other.pid)


def _world() -> str:
    """A digest of boot and pid namespace; empty where unknown: then no holder counts as dead."""
    try:
        identity = f"{_BOOT.read_text()}{_PID_NAMESPACE.readlink()}"
    except OSError:
        return ""
    return hashlib.blake2b(identity.encode(), digest_size=4).hexdigest()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


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
    """Namespace and name of the lease."""

    namespace: str
    name: str


class LeaderElection:
    """One candidate for one lease; `acquired` and `lost` mirror whether it leads.

    `duration`, `renew` and `retry` are seconds; `on_failure` is called for each failed request.
    """

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
        holder_is_dead: Callable[[str], bool] = assume_alive,
        on_failure: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        # Set while this candidate leads.
        self.acquired = asyncio.Event()
        # Set while it does not; always the opposite of `acquired`.
        self.lost = asyncio.Event()
        self.lost.set()
        # How many requests failed since the start.
        self.failures = 0
        # Whether the API server answered the last request.
        self.answered = False
        self._api = api
        self._name = LeaseName(namespace, name)
        self._candidacy = Candidacy(
            identity, Terms(duration, renew, retry), holder_is_dead=holder_is_dead
        )
        self._on_failure = on_failure
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        # The lease as last read or written; None: it must be read before the next write.
        self._lease: Object | None = None
        # One attempt or release at a time.
        self._busy = asyncio.Lock()

    @property
    def identity(self) -> str:
        return self._candidacy.identity

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last read or written; empty without one."""
        record = self._candidacy.record
        return record.holder if record is not None else ""

    def held(self, margin_seconds: float = MARGIN_SECONDS) -> bool:
        """Whether the lease is certainly ours for `margin_seconds` from now."""
        return self._candidacy.held(self._clock.monotonic(), margin_seconds)

    async def run(self) -> None:
        """Take part in the election until `release`; may lead and lose any number of times."""
        while not self._candidacy.resigned:
            await self.attempt()
            await asyncio.sleep(self._pause())

    async def attempt(self) -> None:
        """Read where needed, decide, write; never raises for a failing server."""
        async with self._busy:
            if self._candidacy.resigned:
                return
            try:
                async with asyncio.timeout(self._timeout()):
                    await self._try_once()
                self.answered = True
            except (Conflict, AlreadyExists):
                self.answered = True
                _log.info("lease updated by another process", **self._log_fields())
                self._lease = None
            except (Retryable, TimeoutError) as error:
                self._failed(error)
            self._candidacy.lapse(self._clock.monotonic())
            self._update_events()

    async def release(self) -> None:
        """Stop leading at once and clear the holder, so that the next leader need not wait."""
        self._candidacy.resign()
        self._update_events()
        async with self._busy:
            try:
                async with asyncio.timeout(self._candidacy.terms.renew_seconds / 2):
                    await self._clear_holder()
            except (Retryable, TimeoutError) as error:
                # It expires; the next leader waits for that.
                _log.warning(
                    "could not release the lease; it will expire",
                    error=str(error) or "timed out",
                    **self._log_fields(),
                )

    def _failed(self, error: Retryable | TimeoutError) -> None:
        self.failures += 1
        self.answered = False
        self._on_failure()
        self._lease = None
        if isinstance(error, NotFound):
            # Deleted by a person: any candidate may create it, so it is no longer ours.
            self._candidacy.observe(None, self._clock.monotonic())
        _log.warning("lease request failed", error=str(error) or "timed out", **self._log_fields())

    async def _try_once(self) -> None:
        now = self._clock.monotonic()
        self._candidacy.lapse(now)
        if self._lease is None or not self._candidacy.leading(now):
            await self._read()
        step = self._candidacy.step(self._clock.monotonic())
        if step is Step.WAIT:
            return
        await self._write(step)

    async def _read(self) -> None:
        try:
            self._lease = await self._api.get(LEASES, self._name.name, self._name.namespace)
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

    async def _clear_holder(self) -> None:
        """Write an empty holder if the lease is still ours."""
        for _ in range(_RELEASE_ATTEMPTS):
            await self._read()
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
        """The lease with `holder`, based on what was last read, resourceVersion included."""
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: Object = dict((self._lease or {}).get("spec") or {})
        if spec.get("holderIdentity") != holder:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + bool(self._lease)
        spec["holderIdentity"] = holder
        spec["renewTime"] = now
        spec["leaseDurationSeconds"] = self._candidacy.terms.duration_seconds
        metadata = {"namespace": self._name.namespace, "name": self._name.name}
        return {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": (self._lease or {}).get("metadata") or metadata,
            "spec": spec,
        }

    def _timeout(self) -> float:
        """Seconds that an attempt may take: a leader's ends with its renew deadline."""
        terms = self._candidacy.terms
        longest = max(terms.retry_seconds, terms.renew_seconds / 2)
        now, deadline = self._clock.monotonic(), self._candidacy.give_up_at()
        if deadline is None or deadline <= now:
            return longest
        return min(longest, deadline - now)

    def _pause(self) -> float:
        """Seconds to the next attempt; candidates spread out, a leader keeps its period."""
        terms, now = self._candidacy.terms, self._clock.monotonic()
        if not self._candidacy.leading(now):
            return terms.retry_seconds * self._rng.uniform(1.0, 1.0 + _JITTER)
        left = (self._candidacy.give_up_at() or now) - now
        return min(terms.retry_seconds, max(left, _SHORTEST_PAUSE))

    def _update_events(self) -> None:
        leads = self._candidacy.leading(self._clock.monotonic())
        if leads and not self.acquired.is_set():
            _log.info("became leader", **self._log_fields())
            self.lost.clear()
            self.acquired.set()
        elif not leads and self.acquired.is_set():
            _log.warning("no longer leading", holder=self.holder, **self._log_fields())
            self.acquired.clear()
            self.lost.set()

    def _log_fields(self) -> dict[str, str]:
        lease = f"{self._name.namespace}/{self._name.name}"
        return {"lease": lease, "identity": self.identity}


def _record(lease: Object) -> Record:
    spec = lease.get("spec") or {}
    return Record(
        holder=spec.get("holderIdentity") or "",
        duration_seconds=spec.get("leaseDurationSeconds") or 0,
        version=lease["metadata"]["resourceVersion"],
    )
