"""Writes the objects that isolate an Environment, before anything runs inside it.

Order: RoleBindings, ServiceAccount, LimitRange, ResourceQuota, NetworkPolicies. The quota counts
as in force only once its status confirms it; until then pods would be admitted uncounted.

These objects are ours as a whole (`drift_rules`): whatever others edit, add or delete is restored
when its watch reports it. Server-side apply leaves the fields of others in place, so where such
fields remain the content is replaced at the version that was read. Labels and annotations of
others stay.

Drift is recognized by our own memory: the object was as desired, and no longer is although the
desired state is the same. After a restart, when the memory is empty, by the field manager of the
change.

Called by `isolation_step`, in every reconcile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from windlass.api.install import environment_objects
from windlass.api.install.installation import Installation
from windlass.base import failpoint
from windlass.base.clock import Clock
from windlass.environments import owned_objects, ownership, phase, step
from windlass.environments.audit_log import Correction
from windlass.environments.isolation import drift_rules, quota
from windlass.environments.isolation.drift_rules import Contest
from windlass.environments.owned_cache import OwnedCache
from windlass.environments.owned_objects import OperatorAccount
from windlass.environments.ownership import Ownership
from windlass.environments.step import StepResult
from windlass.kube.api import Api
from windlass.kube.errors import Conflict, Forbidden, Invalid, NotFound
from windlass.objects.names import GVR, Object
from windlass.objects.resources import (
    LIMIT_RANGES,
    NETWORK_POLICIES,
    RESOURCE_QUOTAS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
)
from windlass.runtime.owned import OwnedObjects

_RIGHTS_REQUEUE_SECONDS = 1.0
_RIGHTS_GRACE_SECONDS = 10.0
"""How long a 403 may be the RoleBinding that has not taken effect yet."""

_QUOTA_REQUEUE_SECONDS = 1.0
_SETTLING_SECONDS = 5.0
"""How long a changed quota may take to count before it is reported; usually it takes 10 ms."""

_ATTEMPTS = 3
"""How often a replacement is tried when others write at the same time."""

_EXCLUSIVE_RESOURCES = frozenset({LIMIT_RANGES, NETWORK_POLICIES, RESOURCE_QUOTAS, ROLE_BINDINGS})
"""Resources that are ours as a whole; to the `default` account others may add pull secrets."""


@dataclass(frozen=True, slots=True)
class IsolationSpec:
    """The desired isolation of one Environment.

    hard:             the amounts of the ResourceQuota
    container_limits: defaults and maxima of the LimitRange for one container
    policies:         the spec of each NetworkPolicy by its name
    is_trusted:       if False, foreign NetworkPolicies that allow traffic are deleted
    is_partial:       if True, quota and limits are not known and stay as they are
    keeps_egress:     if True, other policies of ours are not known either and stay as they are
    """

    hard: Mapping[str, str]
    container_limits: Mapping[str, Mapping[str, str]]
    policies: Mapping[str, Object]
    is_trusted: bool = True
    is_partial: bool = False
    keeps_egress: bool = False


@dataclass(frozen=True, slots=True)
class IsolationResult:
    """The result of step policies.

    note:        NetworkPolicies of others that are in force, whatever the result is; or empty
    corrections: objects with drift that were restored or removed
    is_settling: all is written, and the quota takes effect within milliseconds
    """

    result: StepResult
    note: str = ""
    corrections: tuple[Correction, ...] = ()
    is_settling: bool = False


@dataclass(slots=True)
class IsolationMemory:
    """What is remembered of the isolation of one namespace, from one reconcile to the next."""

    # What `desired` was built from; None before the first reconcile.
    spec: IsolationSpec | None = None
    # The owner that `desired` was built for.
    owner: Ownership | None = None
    # The objects to write, in order.
    desired: tuple[tuple[GVR, Object], ...] = ()
    # Desired objects that the cluster had in exactly that form: a difference later is drift.
    observed: dict[tuple[GVR, str], Object] = field(default_factory=dict)
    # Desired object and the content that the API server stores for it, where the two differ.
    stored: dict[tuple[GVR, str], tuple[Object, Object]] = field(default_factory=dict)
    # Restorations in a row, by kind and name.
    contests: dict[tuple[str, str], Contest] = field(default_factory=dict)
    # Monotonic time of the first 403 in a row; None = writes are allowed.
    refused_since: float | None = None
    # Monotonic time since when the quota is written and not in force; None = in force.
    unsettled_since: float | None = None


class IsolationWriter:
    """Writes the isolation of all Environments."""

    def __init__(
        self,
        api: Api,
        cache: OwnedCache,
        owned: OwnedObjects,
        clock: Clock,
        *,
        operator: OperatorAccount,
        install: Installation,
        field_manager: str,
    ) -> None:
        self._api = api
        self._cache = cache
        self._owned = owned
        self._clock = clock
        self._operator = operator
        self._install = install
        self._field_manager = field_manager

    async def ensure(
        self, namespace: str, owner: Ownership, isolation: IsolationSpec, memory: IsolationMemory
    ) -> IsolationResult:
        """Write the isolation of one namespace where it is not as desired, and check the quota."""
        corrections: list[Correction] = []
        failure = None
        try:
            for gvr, desired in self._desired_objects(namespace, owner, isolation, memory):
                try:
                    corrections += await self._ensure(gvr, desired, namespace, memory)
                except (Invalid, Conflict) as error:
                    # The other objects are still written: each of them isolates on its own.
                    failure = failure or _write_failure(desired, error)
            await self._remove_stale_policies(namespace, owner, isolation, memory)
            if not isolation.is_trusted:
                corrections += await self._remove_foreign_policies(
                    namespace, owner, isolation, memory
                )
            memory.refused_since = None
        except Forbidden as error:
            failure = self._forbidden_result(namespace, memory, error)
        failure = failure or self._contest_result(memory)
        result, note = self._result(namespace, owner, isolation, failure)
        return IsolationResult(result, note, tuple(corrections), self._is_settling(memory, result))

    def _desired_objects(
        self, namespace: str, owner: Ownership, isolation: IsolationSpec, memory: IsolationMemory
    ) -> tuple[tuple[GVR, Object], ...]:
        """The objects of an isolation, built once for the same spec and owner."""
        if memory.spec is not isolation or memory.owner != owner:
            memory.spec, memory.owner = isolation, owner
            memory.desired = tuple(self._build_objects(namespace, owner, isolation))
        return memory.desired

    def _build_objects(
        self, namespace: str, owner: Ownership, isolation: IsolationSpec
    ) -> Iterator[tuple[GVR, Object]]:
        """The objects of an isolation in the order of writing: rights first, then the rest."""
        manager, applier = (
            self._install.environment_manager_role,
            self._install.environment_applier_role,
        )
        yield (
            ROLE_BINDINGS,
            owned_objects.manager_binding(namespace, owner, manager, self._operator),
        )
        yield ROLE_BINDINGS, owned_objects.applier_binding(namespace, owner, applier)
        yield SERVICE_ACCOUNTS, owned_objects.default_service_account(namespace, owner)
        if not isolation.is_partial:
            limits = isolation.container_limits
            yield LIMIT_RANGES, owned_objects.limit_range(namespace, owner, limits)
            yield RESOURCE_QUOTAS, owned_objects.resource_quota(namespace, owner, isolation.hard)
        for name, spec in sorted(isolation.policies.items()):
            yield NETWORK_POLICIES, owned_objects.network_policy(namespace, owner, name, spec)

    # ---- one object

    async def _ensure(
        self, gvr: GVR, desired: Object, namespace: str, memory: IsolationMemory
    ) -> tuple[Correction, ...]:
        """Write one object unless it is as desired; the correction if others had changed it."""
        kind, name = desired["kind"], desired["metadata"]["name"]
        live = self._cache.get(gvr, namespace, name)
        if live is not None and self._is_as_desired(gvr, desired, live, memory):
            memory.observed[gvr, name] = desired
            return ()
        writer = next(iter(drift_rules.other_writers(live, self._field_manager)), "")
        observed = memory.observed.get((gvr, name))
        is_drift = (
            observed == desired
            if observed is not None
            else bool(writer) and gvr in _EXCLUSIVE_RESOURCES
        )
        # Contested: the next restoration is not due yet; `_contest_result` reports it.
        if is_drift and self._is_throttled(kind, name, memory):
            return ()
        await self._write(gvr, desired, namespace, live, memory)
        memory.observed[gvr, name] = desired
        return (self._record_correction(kind, name, writer, memory),) if is_drift else ()

    def _is_as_desired(
        self, gvr: GVR, desired: Object, live: Object, memory: IsolationMemory
    ) -> bool:
        if not self._owned.is_up_to_date(desired, live):
            return False
        if gvr not in _EXCLUSIVE_RESOURCES or drift_rules.has_exact_content(desired, live):
            return True
        stored = memory.stored.get((gvr, desired["metadata"]["name"]))
        return stored == (desired, drift_rules.exclusive_content(live))

    async def _write(
        self,
        gvr: GVR,
        desired: Object,
        namespace: str,
        live: Object | None,
        memory: IsolationMemory,
    ) -> None:
        """Apply one object, recreate it if it is immutable, and remove content of others."""
        name = desired["metadata"]["name"]
        try:
            applied = await self._apply(gvr, desired, namespace, live)
        except Invalid:
            # By a request: an object that lost our labels is not in the cache.
            existing = await self._read(gvr, name, namespace)
            if existing is None or not drift_rules.needs_replacement(desired, existing):
                raise
            await self._delete(gvr, existing, namespace)
            applied = await self._apply(gvr, desired, namespace, None)
        if gvr in _EXCLUSIVE_RESOURCES and not drift_rules.has_exact_content(desired, applied):
            replaced = await self._replace_with_retries(gvr, desired, namespace, applied)
            if not drift_rules.has_exact_content(desired, replaced):
                # The server completes exactly this content, so its answer is what to expect. The
                # answer to the apply below is not: another client may have written in between.
                memory.stored[gvr, name] = (desired, drift_rules.exclusive_content(replaced))
                # Replacing took the fields from our applied set; applying takes them back.
                await self._apply(gvr, desired, namespace, None)

    async def _apply(
        self, gvr: GVR, desired: Object, namespace: str, live: Object | None
    ) -> Object:
        ensure = self._owned.ensure(gvr, desired, live)
        return await self._cache.await_write(gvr, namespace, desired["metadata"]["name"], ensure)

    async def _read(self, gvr: GVR, name: str, namespace: str) -> Object | None:
        try:
            return await self._api.get(gvr, name, namespace)
        except NotFound:
            return None

    async def _replace_with_retries(
        self, gvr: GVR, desired: Object, namespace: str, live: Object
    ) -> Object:
        """Replace the content by ours alone; after a conflict with the version that is new."""
        name = desired["metadata"]["name"]
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(Conflict):
                return await self._replace(gvr, desired, namespace, live)
            live = await self._api.get(gvr, name, namespace)
        return await self._replace(gvr, desired, namespace, live)

    async def _replace(self, gvr: GVR, desired: Object, namespace: str, live: Object) -> Object:
        """Replace the content at the version that was read; raises Conflict if it is outdated."""
        name, version = desired["metadata"]["name"], live["metadata"]["resourceVersion"]
        content, live_content = (
            drift_rules.exclusive_content(desired),
            drift_rules.exclusive_content(live),
        )
        patch: list[Object] = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            *({"op": "add", "path": f"/{key}", "value": value} for key, value in content.items()),
            *({"op": "remove", "path": f"/{key}"} for key in live_content if key not in content),
        ]
        failpoint.reach("environments.policy.replace.before")
        write = self._api.json_patch(gvr, name, patch, namespace, field_manager=self._field_manager)
        replaced = await self._cache.await_write(gvr, namespace, name, write)
        failpoint.reach("environments.policy.replace.after")
        return replaced

    def _is_throttled(self, kind: str, name: str, memory: IsolationMemory) -> bool:
        contest = memory.contests.get((kind, name), Contest())
        return contest.wait(self._clock.monotonic()) > 0

    def _record_correction(
        self,
        kind: str,
        name: str,
        writer: str,
        memory: IsolationMemory,
        *,
        is_removed: bool = False,
    ) -> Correction:
        contest = memory.contests.get((kind, name), Contest())
        memory.contests[kind, name] = contest.after_restoration(
            self._clock.monotonic(), writer, is_removed=is_removed
        )
        return Correction(kind, name, writer, is_removed)

    # ---- NetworkPolicies that are not part of the isolation

    async def _remove_stale_policies(
        self, namespace: str, owner: Ownership, isolation: IsolationSpec, memory: IsolationMemory
    ) -> None:
        """Delete NetworkPolicies of ours that are no longer desired, if that is known."""
        if isolation.keeps_egress:
            return
        for live in self._other_policies(namespace, owner, isolation):
            if ownership.owner_uid(live) == owner.uid and not drift_rules.is_terminating(live):
                await self._delete(NETWORK_POLICIES, live, namespace)
                memory.observed.pop((NETWORK_POLICIES, live["metadata"]["name"]), None)

    async def _remove_foreign_policies(
        self, namespace: str, owner: Ownership, isolation: IsolationSpec, memory: IsolationMemory
    ) -> tuple[Correction, ...]:
        """Delete foreign NetworkPolicies that allow traffic: policies add up, so they open ours."""
        removed = []
        for live in self._other_policies(namespace, owner, isolation):
            name = live["metadata"]["name"]
            # Deleting again changes nothing, and would hide from the cache that it still exists.
            if not drift_rules.allows_traffic(live) or drift_rules.is_terminating(live):
                continue
            if self._is_throttled("NetworkPolicy", name, memory):
                continue
            writer = next(iter(drift_rules.other_writers(live, self._field_manager)), "")
            await self._delete(NETWORK_POLICIES, live, namespace)
            removed.append(
                self._record_correction("NetworkPolicy", name, writer, memory, is_removed=True)
            )
        return tuple(removed)

    def _other_policies(
        self, namespace: str, owner: Ownership, isolation: IsolationSpec
    ) -> list[Object]:
        """NetworkPolicies that are not desired: of others, or of ours from before."""
        return [
            live
            for live in self._cache.list_objects(NETWORK_POLICIES, namespace)
            if live["metadata"]["name"] not in isolation.policies
            # Anybody can copy our labels: what others wrote into a policy is not kept by them.
            and not (
                isolation.keeps_egress
                and ownership.owner_uid(live) == owner.uid
                and not drift_rules.other_writers(live, self._field_manager)
            )
        ]

    async def _delete(self, gvr: GVR, live: Object, namespace: str) -> None:
        name = live["metadata"]["name"]
        failpoint.reach("environments.policy.delete.before")
        delete = self._api.delete(gvr, name, namespace, uid=live["metadata"]["uid"])
        with contextlib.suppress(NotFound, Conflict):
            await self._cache.await_deletion(gvr, namespace, name, delete)
        failpoint.reach("environments.policy.delete.after")

    # ---- what is reported

    def _forbidden_result(
        self, namespace: str, memory: IsolationMemory, error: Forbidden
    ) -> StepResult:
        """The result for a 403; a new RoleBinding takes some seconds to take effect."""
        now = self._clock.monotonic()
        since = memory.refused_since = memory.refused_since or now
        if now - since < _RIGHTS_GRACE_SECONDS:
            text = f"waiting for RoleBinding {environment_objects.MANAGER_NAME} to take effect"
            return step.pending(
                phase.POLICIES, "RightsPending", text, after=_RIGHTS_REQUEUE_SECONDS
            )
        text = f"the operator is not allowed to write to namespace {namespace}: {error.message}"
        return step.retrying(phase.POLICIES, "PolicyApplyFailed", text)

    def _contest_result(self, memory: IsolationMemory) -> StepResult | None:
        """Contested, if others change an object again after each restoration; else None."""
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

    def _result(
        self,
        namespace: str,
        owner: Ownership,
        isolation: IsolationSpec,
        failure: StepResult | None,
    ) -> tuple[StepResult, str]:
        """The result, and in a text the NetworkPolicies in force that it does not name."""
        undeleted, unmanaged = self._policies_of_others(namespace, owner, isolation)
        kept = "; ".join(map(drift_rules.undeleted_policy_message, undeleted))
        others = drift_rules.unmanaged_policies_message(unmanaged, self._field_manager)
        if failure is None and kept:
            return step.waiting(phase.POLICIES, "PolicyApplyFailed", kept), others
        note = "; ".join(filter(None, (kept, others)))
        return failure or self._quota_result(namespace, isolation), note

    def _policies_of_others(
        self, namespace: str, owner: Ownership, isolation: IsolationSpec
    ) -> tuple[list[Object], list[Object]]:
        """Policies that we deleted and that finalizers keep in force, and other foreign ones."""
        undeleted, unmanaged = [], []
        for live in self._other_policies(namespace, owner, isolation):
            is_ours = ownership.owner_uid(live) == owner.uid
            is_deleted = drift_rules.is_terminating(live) and (is_ours or not isolation.is_trusted)
            if is_deleted and drift_rules.allows_traffic(live):
                undeleted.append(live)
            elif not is_ours:
                unmanaged.append(live)
        return undeleted, unmanaged

    def _quota_result(self, namespace: str, isolation: IsolationSpec) -> StepResult:
        """Whether the quota is in force; then all of the isolation is, as it was written before."""
        live = self._cache.get(RESOURCE_QUOTAS, namespace, environment_objects.QUOTA_NAME) or {}
        if not isolation.is_partial and not quota.is_in_force(isolation.hard, live):
            text = "waiting for the quota to take effect"
            return step.pending(phase.POLICIES, "QuotaPending", text, after=_QUOTA_REQUEUE_SECONDS)
        text = quota.usage_message(live) or "Quota, limits and network policies are in force"
        return step.success(phase.POLICIES, "PoliciesApplied", text)

    def _is_settling(self, memory: IsolationMemory, result: StepResult) -> bool:
        """Whether the quota is not in force yet, and for less than `_SETTLING_SECONDS`."""
        if result.condition.reason != "QuotaPending":
            memory.unsettled_since = None
            return False
        now = self._clock.monotonic()
        since = memory.unsettled_since = memory.unsettled_since or now
        return now - since < _SETTLING_SECONDS


def _write_failure(desired: Object, error: Invalid | Conflict) -> StepResult:
    kind, name = desired["kind"], desired["metadata"]["name"]
    if isinstance(error, Conflict):
        text = f"{kind} {name}: another client wrote at the same time; retrying"
    else:
        text = drift_rules.rejection_message(kind, name, error.fields)
    return step.retrying(phase.POLICIES, "PolicyApplyFailed", text)
