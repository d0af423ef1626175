"""Writes the objects that isolate an Environment, before anything runs inside it.

Order: rights, account, LimitRange, ResourceQuota, NetworkPolicies. The quota counts as in
force only once its status confirms it; until then pods would pass it uncounted.

What isolates is ours as a whole (`drift_rules`): whatever others edit, add to it or delete is
restored when its watch reports it. Server-side apply leaves the fields of others in place, so
where they remain the content is replaced at the version that was read. Labels and annotations
of others stay.

Drift is recognized by our own memory: the object was as desired, and is not any more although the
desired state is the same. After a restart, when the memory is empty, by the field manager of the
change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from windlass.api.install.installation import Installation
from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.environments import owned_objects, ownership, phase, step
from windlass.environments.audit_log import Correction
from windlass.environments.isolation import drift_rules
from windlass.environments.isolation.drift_rules import Contest
from windlass.environments.owned_cache import (
    LIMIT_RANGES,
    NETWORK_POLICIES,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    OwnedCache,
)
from windlass.environments.owned_objects import OperatorAccount
from windlass.environments.ownership import Ownership
from windlass.environments.step import StepResult
from windlass.kube.api import Api
from windlass.kube.errors import Conflict, Forbidden, Invalid, NotFound
from windlass.objects import quantity
from windlass.objects.names import GVR, Object
from windlass.runtime.owned import OwnedObjects

_RIGHTS_REQUEUE_SECONDS = 1.0
_RIGHTS_GRACE_SECONDS = 10.0
_QUOTA_REQUEUE_SECONDS = 1.0
_SETTLING_SECONDS = 5.0
"""How long a changed quota may take to count before anybody hears of it; it takes 10 ms."""

_ATTEMPTS = 3

_EXCLUSIVE_RESOURCES = frozenset({LIMIT_RANGES, NETWORK_POLICIES, RESOURCE_QUOTAS, ROLE_BINDINGS})
"""What isolates; on the `default` account others may list pull secrets."""


@dataclass(frozen=True, slots=True)
class IsolationSpec:
    """Everything that holds an Environment in; `is_trusted` says whether its code is vouched for.

    hard:       the quota
    container:  defaults and bounds for one container
    policies:   the spec of each NetworkPolicy by its name
    """

    hard: Mapping[str, str]
    container_limits: Mapping[str, Mapping[str, str]]
    policies: Mapping[str, Object]
    is_trusted: bool = True


@dataclass(frozen=True, slots=True)
class IsolationResult:
    """What was put right on the way.

    corrected:   objects that somebody had changed
    is_settling: all is written, and the API server needs a moment to count by it
    """

    result: StepResult
    corrections: tuple[Correction, ...] = ()
    is_settling: bool = False


@dataclass(slots=True)
class _IsolationMemory:
    """What is known of one fence.

    fence, owner:  what `wanted` was put together from
    wanted:        its objects
    stood:         the desired objects that were observed as such
    stored:        what the API server made of a desired object that it stores in another form
    contests:      restorations in a row, by kind and name
    refused_since: since when we are forbidden to write
    unsettled_since: since when the quota is written and does not count
    """

    spec: IsolationSpec | None = None
    owner: Ownership | None = None
    wanted: tuple[tuple[GVR, Object], ...] = ()
    observed: dict[tuple[GVR, str], Object] = field(default_factory=dict)
    stored: dict[tuple[GVR, str], tuple[Object, Object]] = field(default_factory=dict)
    contests: dict[tuple[str, str], Contest] = field(default_factory=dict)
    refused_since: float | None = None
    unsettled_since: float | None = None


class IsolationWriter:
    """The fences of all Environments."""

    def __init__(
        self,
        api: Api,
        holdings: OwnedCache,
        owned: OwnedObjects,
        clock: Clock,
        *,
        operator: OperatorAccount,
        install: Installation,
        field_manager: str,
    ) -> None:
        self._api = api
        self._cache = holdings
        self._owned = owned
        self._clock = clock
        self._operator = operator
        self._install = install
        self._field_manager = field_manager
        self._memories: dict[str, _IsolationMemory] = {}

    async def ensure(self, place: str, owner: Ownership, fence: IsolationSpec) -> IsolationResult:
        """Bring the fence of one namespace to what is wished."""
        corrected: list[Correction] = []
        memory = self._memories.setdefault(place, _IsolationMemory())
        try:
            refused = None
            for gvr, wanted in self._desired_objects(place, owner, fence, memory):
                try:
                    corrected += await self._ensure(gvr, wanted, place, memory)
                except (Invalid, Conflict) as error:
                    # One object that cannot be written leaves no other one open.
                    refused = refused or error
            await self._remove_stale_policies(place, owner, fence, memory)
            if not fence.is_trusted:
                corrected += await self._remove_foreign_policies(place, fence, memory)
        except Forbidden as error:
            return IsolationResult(self._forbidden_result(place, memory, error), tuple(corrected))
        memory.refused_since = None
        if refused is not None:
            return IsolationResult(_write_failure(refused), tuple(corrected))
        found = self._contest_result(memory) or self._quota_result(place, fence)
        return IsolationResult(found, tuple(corrected), self._is_settling(memory, found))

    def forget(self, place: str) -> None:
        """The namespace is gone."""
        self._memories.pop(place, None)

    def _desired_objects(
        self, place: str, owner: Ownership, fence: IsolationSpec, memory: _IsolationMemory
    ) -> tuple[tuple[GVR, Object], ...]:
        """The objects of a fence, put together once."""
        if memory.spec is not fence or memory.owner != owner:
            memory.spec, memory.owner = fence, owner
            memory.wanted = tuple(self._build_objects(place, owner, fence))
        return memory.wanted

    def _build_objects(
        self, place: str, owner: Ownership, fence: IsolationSpec
    ) -> Iterator[tuple[GVR, Object]]:
        manager, applier = (
            self._install.environment_manager_role,
            self._install.environment_applier_role,
        )
        yield ROLE_BINDINGS, owned_objects.manager_binding(place, owner, manager, self._operator)
        yield ROLE_BINDINGS, owned_objects.applier_binding(place, owner, applier)
        yield SERVICE_ACCOUNTS, owned_objects.default_service_account(place, owner)
        yield LIMIT_RANGES, owned_objects.limit_range(place, owner, fence.container_limits)
        yield RESOURCE_QUOTAS, owned_objects.resource_quota(place, owner, fence.hard)
        for name, spec in sorted(fence.policies.items()):
            yield NETWORK_POLICIES, owned_objects.network_policy(place, owner, name, spec)

    # ---- one object

    async def _ensure(
        self, gvr: GVR, wanted: Object, place: str, memory: _IsolationMemory
    ) -> tuple[Correction, ...]:
        """Write one object unless it is as desired; the correction if somebody had changed it."""
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        live = self._cache.get(gvr, place, name)
        if live is not None and self._is_as_desired(gvr, wanted, live, memory):
            memory.observed[gvr, name] = wanted
            return ()
        writer = next(iter(drift_rules.other_writers(live, self._field_manager)), "")
        stood = memory.observed.get((gvr, name))
        is_drift = (
            stood == wanted if stood is not None else bool(writer) and gvr in _EXCLUSIVE_RESOURCES
        )
        if is_drift and self._is_throttled(kind, name, memory):
            return ()
        await self._write(gvr, wanted, place, live, memory)
        memory.observed[gvr, name] = wanted
        return (self._record_correction(kind, name, writer, memory),) if is_drift else ()

    def _is_as_desired(
        self, gvr: GVR, wanted: Object, live: Object, memory: _IsolationMemory
    ) -> bool:
        if not self._owned.is_as_wanted(wanted, live):
            return False
        if gvr not in _EXCLUSIVE_RESOURCES or drift_rules.has_exact_content(wanted, live):
            return True
        known = memory.stored.get((gvr, wanted["metadata"]["name"]))
        return known == (wanted, drift_rules.exclusive_content(live))

    async def _write(
        self, gvr: GVR, wanted: Object, place: str, live: Object | None, memory: _IsolationMemory
    ) -> None:
        name = wanted["metadata"]["name"]
        try:
            applied = await self._apply(gvr, wanted, place, live)
        except Invalid:
            # Read, not looked up: one without our labels is in no cache.
            found = await self._read(gvr, name, place)
            if found is None or not drift_rules.needs_replacement(wanted, found):
                raise
            await self._delete(gvr, found, place)
            applied = await self._apply(gvr, wanted, place, None)
        if gvr in _EXCLUSIVE_RESOURCES and not drift_rules.has_exact_content(wanted, applied):
            replaced = await self._replace_with_retries(gvr, wanted, place, applied)
            if not drift_rules.has_exact_content(wanted, replaced):
                # The server completes exactly this content, so its answer is what to expect.
                # Replacing took the fields from our applied set; applying takes them back.
                replaced = await self._apply(gvr, wanted, place, None)
                memory.stored[gvr, name] = (wanted, drift_rules.exclusive_content(replaced))

    async def _apply(self, gvr: GVR, wanted: Object, place: str, live: Object | None) -> Object:
        ensure = self._owned.ensure(gvr, wanted, live)
        return await self._cache.await_write(gvr, place, wanted["metadata"]["name"], ensure)

    async def _read(self, gvr: GVR, name: str, place: str) -> Object | None:
        try:
            return await self._api.get(gvr, name, place)
        except NotFound:
            return None

    async def _replace_with_retries(
        self, gvr: GVR, wanted: Object, place: str, live: Object
    ) -> Object:
        """The object with our content alone; whoever writes in between is read again."""
        name = wanted["metadata"]["name"]
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(Conflict):
                return await self._replace(gvr, wanted, place, live)
            live = await self._api.get(gvr, name, place)
        return await self._replace(gvr, wanted, place, live)

    async def _replace(self, gvr: GVR, wanted: Object, place: str, live: Object) -> Object:
        name, version = wanted["metadata"]["name"], live["metadata"]["resourceVersion"]
        content, there = drift_rules.exclusive_content(wanted), drift_rules.exclusive_content(live)
        patch: list[Object] = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            *({"op": "add", "path": f"/{key}", "value": value} for key, value in content.items()),
            *({"op": "remove", "path": f"/{key}"} for key in there if key not in content),
        ]
        failpoint.reach("environments.policy.replace.before")
        write = self._api.json_patch(gvr, name, patch, place, field_manager=self._field_manager)
        replaced = await self._cache.await_write(gvr, place, name, write)
        failpoint.reach("environments.policy.replace.after")
        return replaced

    def _is_throttled(self, kind: str, name: str, memory: _IsolationMemory) -> bool:
        contest = memory.contests.get((kind, name), Contest())
        return contest.wait(self._clock.monotonic()) > 0

    def _record_correction(
        self, kind: str, name: str, writer: str, memory: _IsolationMemory
    ) -> Correction:
        contest = memory.contests.get((kind, name), Contest())
        memory.contests[kind, name] = contest.after_restoration(self._clock.monotonic(), writer)
        return Correction(kind, name, writer)

    # ---- NetworkPolicies that are not part of the fence

    async def _remove_stale_policies(
        self, place: str, owner: Ownership, fence: IsolationSpec, memory: _IsolationMemory
    ) -> None:
        """Doors that are no longer wished are closed."""
        for live in list(self._cache.list_objects(NETWORK_POLICIES, place)):
            name = live["metadata"]["name"]
            if name not in fence.policies and ownership.owner_uid(live) == owner.uid:
                await self._delete(NETWORK_POLICIES, live, place)
                memory.observed.pop((NETWORK_POLICIES, name), None)

    async def _remove_foreign_policies(
        self, place: str, fence: IsolationSpec, memory: _IsolationMemory
    ) -> tuple[Correction, ...]:
        """Delete what others added and what lets traffic through; policies add up."""
        removed = []
        for live in self._foreign_policies(place, fence):
            name = live["metadata"]["name"]
            if not drift_rules.allows_traffic(live) or self._is_throttled(
                "NetworkPolicy", name, memory
            ):
                continue
            writer = next(iter(drift_rules.other_writers(live, self._field_manager)), "")
            await self._delete(NETWORK_POLICIES, live, place)
            found = self._record_correction("NetworkPolicy", name, writer, memory)
            removed.append(replace(found, is_removed=True))
        return tuple(removed)

    def _foreign_policies(self, place: str, fence: IsolationSpec) -> list[Object]:
        return [
            live
            for live in self._cache.list_objects(NETWORK_POLICIES, place)
            if live["metadata"]["name"] not in fence.policies
        ]

    async def _delete(self, gvr: GVR, live: Object, place: str) -> None:
        name = live["metadata"]["name"]
        failpoint.reach("environments.policy.delete.before")
        delete = self._api.delete(gvr, name, place, uid=live["metadata"]["uid"])
        with contextlib.suppress(NotFound, Conflict):
            await self._cache.await_deletion(gvr, place, name, delete)
        failpoint.reach("environments.policy.delete.after")

    # ---- what is reported

    def _forbidden_result(
        self, place: str, memory: _IsolationMemory, error: Forbidden
    ) -> StepResult:
        """Right after the binding was made the API server does not know it yet."""
        now = self._clock.monotonic()
        since = memory.refused_since = memory.refused_since or now
        if now - since < _RIGHTS_GRACE_SECONDS:
            text = f"waiting for RoleBinding {owned_objects.MANAGER_NAME} to take effect"
            return step.pending(
                phase.POLICIES, "RightsPending", text, after=_RIGHTS_REQUEUE_SECONDS
            )
        text = f"the operator may not write in {place}: {error.message}"
        return step.retrying(phase.POLICIES, "PolicyApplyFailed", text)

    def _contest_result(self, memory: _IsolationMemory) -> StepResult | None:
        """That somebody changes an object after each restoration."""
        now = self._clock.monotonic()
        memory.contests = {
            key: contest
            for key, contest in memory.contests.items()
            if now - contest.last < drift_rules.QUIET_SECONDS
        }
        for (kind, name), contest in memory.contests.items():
            if contest.is_open(now):
                text = drift_rules.contest_message(kind, name, contest)
                after = contest.wait(now) or drift_rules.SLOWEST_SECONDS
                return step.waiting(phase.POLICIES, "Contested", text, after=after)
        return None

    def _quota_result(self, place: str, fence: IsolationSpec) -> StepResult:
        live = self._cache.get(RESOURCE_QUOTAS, place, owned_objects.QUOTA_NAME) or {}
        status = (live.get("status") or {}).get("hard") or {}
        if not _amounts_equal(fence.hard, status):
            text = "waiting for the quota to take effect"
            return step.pending(phase.POLICIES, "QuotaPending", text, after=_QUOTA_REQUEUE_SECONDS)
        text = _over_quota_message(live) or "quota, limits and network policies are in force"
        others = drift_rules.unmanaged_policies_message(
            self._foreign_policies(place, fence), self._field_manager
        )
        return step.success(
            phase.POLICIES, "PoliciesApplied", f"{text}; {others}" if others else text
        )

    def _is_settling(self, memory: _IsolationMemory, found: StepResult) -> bool:
        """Whether the quota has not counted for a moment only."""
        if found.condition.reason != "QuotaPending":
            memory.unsettled_since = None
            return False
        now = self._clock.monotonic()
        since = memory.unsettled_since = memory.unsettled_since or now
        return now - since < _SETTLING_SECONDS


def _write_failure(error: Invalid | Conflict) -> StepResult:
    if isinstance(error, Conflict):
        text = "the quota, the limits or a policy is written by others at the same time"
    else:
        fields = ", ".join(error.fields) or "a field"
        text = f"the API server refuses {fields} of the quota, the limits or a policy"
    return step.retrying(phase.POLICIES, "PolicyApplyFailed", text)


def _amounts_equal(wanted: Mapping[str, str], counted: Mapping[str, str]) -> bool:
    return wanted.keys() == counted.keys() and all(
        quantity.same(wanted[name], counted[name]) for name in wanted
    )


def _over_quota_message(live: Object) -> str:
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
