"""Puts the fence around an Environment, before anything runs inside it.

Order: rights, account, LimitRange, ResourceQuota, NetworkPolicies. The quota counts as in
force only once the API server says so itself; until then pods would pass it uncounted.
What somebody edited or deleted is put right when its watch tells; what they added stays.
That somebody did is known by our own memory: an object that was as wished, and is not any
more although the wish is the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from windlass.api.install import Install
from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.environments.decide import marks, owned_objects, phase, step
from windlass.environments.decide.marks import Marks
from windlass.environments.decide.owned_objects import Subject
from windlass.environments.decide.step import Finding
from windlass.environments.holdings import (
    LIMIT_RANGES,
    NETWORK_POLICIES,
    QUOTAS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    Holdings,
)
from windlass.kube.api import Api
from windlass.kube.errors import Conflict, Forbidden, Invalid, NotFound
from windlass.objects import quantity
from windlass.objects.gvr import GVR
from windlass.objects.json import Object
from windlass.runtime.owned import Owned

_RIGHTS_SECONDS = 1.0
_RIGHTS_TAKE_SECONDS = 10.0
_IN_FORCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Fence:
    """Everything that holds an Environment in."""

    hard: Mapping[str, str]
    container: Mapping[str, Mapping[str, str]]
    policies: Mapping[str, Object]


@dataclass(frozen=True, slots=True)
class Fenced:
    """What was put right on the way; `corrected` names objects that somebody had changed."""

    finding: Finding
    corrected: tuple[str, ...] = ()


@dataclass(slots=True)
class _Memory:
    """What is known of one fence: what it consists of, the wishes that stood, since when we
    are refused.
    """

    fence: Fence | None = None
    owner: Marks | None = None
    wanted: tuple[tuple[GVR, Object], ...] = ()
    stood: dict[tuple[GVR, str], Object] = field(default_factory=dict)
    refused_since: float | None = None


class Fencing:
    """The fences of all Environments."""

    def __init__(
        self,
        api: Api,
        holdings: Holdings,
        owned: Owned,
        clock: Clock,
        *,
        operator: Subject,
        install: Install,
    ) -> None:
        self._api = api
        self._holdings = holdings
        self._owned = owned
        self._clock = clock
        self._operator = operator
        self._install = install
        self._memories: dict[str, _Memory] = {}

    async def ensure(self, place: str, owner: Marks, fence: Fence) -> Fenced:
        """Bring the fence of one namespace to what is wished."""
        corrected: list[str] = []
        memory = self._memories.setdefault(place, _Memory())
        try:
            for gvr, wanted in self._parts(place, owner, fence, memory):
                if await self._ensure(gvr, wanted, place, memory):
                    corrected.append(f"{wanted['kind']}/{wanted['metadata']['name']}")
            await self._take_down(place, owner, fence, memory)
        except Forbidden as error:
            return Fenced(self._forbidden(place, memory, error), tuple(corrected))
        except Invalid as error:
            fields = ", ".join(error.fields) or "a field"
            text = f"the API server refuses {fields} of the quota, the limits or a policy"
            return Fenced(
                step.retrying(phase.POLICIES, "PolicyApplyFailed", text), tuple(corrected)
            )
        memory.refused_since = None
        return Fenced(self._in_force(place, fence), tuple(corrected))

    def forget(self, place: str) -> None:
        """The namespace is gone."""
        self._memories.pop(place, None)

    def _parts(
        self, place: str, owner: Marks, fence: Fence, memory: _Memory
    ) -> tuple[tuple[GVR, Object], ...]:
        """The objects of a fence, put together once."""
        if memory.fence is not fence or memory.owner != owner:
            memory.fence, memory.owner = fence, owner
            memory.wanted = tuple(self._wanted(place, owner, fence))
        return memory.wanted

    def _wanted(self, place: str, owner: Marks, fence: Fence) -> Iterator[tuple[GVR, Object]]:
        manager, applier = self._install.environment_manager, self._install.environment_applier
        yield ROLE_BINDINGS, owned_objects.manager_binding(place, owner, manager, self._operator)
        yield ROLE_BINDINGS, owned_objects.applier_binding(place, owner, applier)
        yield SERVICE_ACCOUNTS, owned_objects.default_account(place, owner)
        yield LIMIT_RANGES, owned_objects.limit_range(place, owner, fence.container)
        yield QUOTAS, owned_objects.quota(place, owner, fence.hard)
        for name, spec in sorted(fence.policies.items()):
            yield NETWORK_POLICIES, owned_objects.network_policy(place, owner, name, spec)

    async def _ensure(self, gvr: GVR, wanted: Object, place: str, memory: _Memory) -> bool:
        """Write one object if it is not as wanted; True if somebody had changed it."""
        name = wanted["metadata"]["name"]
        live = self._holdings.get(gvr, place, name)
        if live is not None and self._owned.is_as_wanted(wanted, live):
            memory.stood[gvr, name] = wanted
            return False
        is_drift = memory.stood.get((gvr, name)) == wanted
        await self._write(gvr, wanted, place, live)
        memory.stood[gvr, name] = wanted
        return is_drift

    async def _write(self, gvr: GVR, wanted: Object, place: str, live: Object | None) -> None:
        name = wanted["metadata"]["name"]
        try:
            await self._holdings.written(gvr, place, name, self._owned.ensure(gvr, wanted, live))
        except Invalid:
            if gvr != ROLE_BINDINGS or live is None:
                raise
            # Which role a binding gives cannot be changed; only a new binding gives another.
            await self._delete(gvr, live, place)
            await self._holdings.written(gvr, place, name, self._owned.ensure(gvr, wanted, None))

    async def _take_down(self, place: str, owner: Marks, fence: Fence, memory: _Memory) -> None:
        """Doors that are no longer wished are closed."""
        for live in list(self._holdings.inside(NETWORK_POLICIES, place)):
            name = live["metadata"]["name"]
            if name not in fence.policies and marks.owner_uid(live) == owner.uid:
                await self._delete(NETWORK_POLICIES, live, place)
                memory.stood.pop((NETWORK_POLICIES, name), None)

    async def _delete(self, gvr: GVR, live: Object, place: str) -> None:
        name = live["metadata"]["name"]
        failpoint.reach("environments.policy.delete.before")
        delete = self._api.delete(gvr, name, place, uid=live["metadata"]["uid"])
        with contextlib.suppress(NotFound, Conflict):
            await self._holdings.deleted(gvr, place, name, delete)
        failpoint.reach("environments.policy.delete.after")

    def _forbidden(self, place: str, memory: _Memory, error: Forbidden) -> Finding:
        """Right after the binding was made the API server does not know it yet."""
        now = self._clock.monotonic()
        since = memory.refused_since = memory.refused_since or now
        text = f"the operator may not write in {place}: {error.message}"
        if now - since < _RIGHTS_TAKE_SECONDS:
            return step.waiting(phase.POLICIES, "PolicyApplyFailed", text, after=_RIGHTS_SECONDS)
        return step.retrying(phase.POLICIES, "PolicyApplyFailed", text)

    def _in_force(self, place: str, fence: Fence) -> Finding:
        live = self._holdings.get(QUOTAS, place, owned_objects.QUOTA) or {}
        status = (live.get("status") or {}).get("hard") or {}
        if not _same_amounts(fence.hard, status):
            text = "the quota is written; the API server does not count by it yet"
            return step.waiting(phase.POLICIES, "PolicyApplyFailed", text, after=_IN_FORCE_SECONDS)
        text = _exceeded(live) or "quota, limits and network policies are in force"
        return step.done(phase.POLICIES, "PoliciesApplied", text)


def _same_amounts(wanted: Mapping[str, str], counted: Mapping[str, str]) -> bool:
    return wanted.keys() == counted.keys() and all(
        quantity.same(wanted[name], counted[name]) for name in wanted
    )


def _exceeded(live: Object) -> str:
    """A quota below what is in use holds for new pods only; that is worth a sentence."""
    status = live.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    over = sorted(
        name
        for name, amount in used.items()
        if name in hard and quantity.parse(amount) > quantity.parse(hard[name])
    )
    if not over:
        return ""
    return f"in force; more is in use than the quota allows ({', '.join(over)}), which stays"
