"""Creates, restores and deletes the namespace of an Environment.

Rules
1. A namespace is ours only if its uid annotation and label are those of this Environment;
   they are set by the very call that creates it. Nothing else is ever adopted.
2. Names come from the API server's current state, not from a cache: a cache that has not
   observed a namespace yet would offer a name that is taken.
3. An Environment that has a namespace keeps it, also if the naming rules have changed since.
   A namespace of an older Environment of the same name must be gone first.
4. A namespace whose uid was removed by others is no longer ours: it is left alone.
5. Deletion names the uid of the namespace, so one recreated under its name survives. The
   answer to it counts like a write, so it is not repeated while the cache is late.

Called by `environment_reconciler` (step namespace) and `deletion`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from windlass.base import failpoint
from windlass.environments import owned_objects, ownership, phase, step
from windlass.environments.audit_log import Correction
from windlass.environments.namespace import naming
from windlass.environments.namespace.naming import EnvironmentIdentity, NamespaceClaim, NamingRules
from windlass.environments.owned_cache import OwnedCache
from windlass.environments.ownership import Ownership
from windlass.environments.step import StepResult
from windlass.kube.api import Api
from windlass.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from windlass.objects import managed_fields
from windlass.objects.names import Object
from windlass.objects.resources import NAMESPACES
from windlass.runtime.owned import OwnedObjects

_REQUEUE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class NamespaceResult:
    """The result of step namespace."""

    result: StepResult
    live: Object | None = None  # the namespace; None = there is none yet
    corrections: tuple[Correction, ...] = ()  # drift of its labels that was restored


class NamespaceManager:
    """Manages the namespaces of all Environments."""

    def __init__(
        self,
        api: Api,
        cache: OwnedCache,
        owned: OwnedObjects,
        naming: NamingRules,
        *,
        field_manager: str,
    ) -> None:
        self._api = api
        self._cache = cache
        self._owned = owned
        self._naming = naming
        self._field_manager = field_manager

    async def ensure(
        self,
        identity: EnvironmentIdentity,
        owner: Ownership,
        pod_security: str,
        used: Iterable[str],
    ) -> NamespaceResult:
        """Create or restore the namespace of an Environment.

        `used` are namespaces that must not become one.
        """
        try:
            return await self._ensure(identity, owner, pod_security, used)
        except Forbidden as error:
            text = f"the operator is not allowed to create or update the namespace: {error.message}"
            return NamespaceResult(step.retrying(phase.NAMESPACE, "CreateForbidden", text))

    async def _ensure(
        self,
        identity: EnvironmentIdentity,
        owner: Ownership,
        pod_security: str,
        used: Iterable[str],
    ) -> NamespaceResult:
        """Restore the namespace that exists, else choose a name and create it."""
        existing = self._existing_name(identity, owner.uid)
        if existing:
            desired = owned_objects.namespace(existing, owner, pod_security)
            is_drift = self._has_pod_security_drift(desired)
            live = await self._restore(desired)
            corrections = (Correction("Namespace", existing),) if is_drift else ()
            return NamespaceResult(_namespace_result(live), live, corrections)
        claims = await self._claims(identity)
        choice = naming.choose_namespace(identity, owner.uid, claims, self._naming, used=used)
        if choice.refusal:
            return NamespaceResult(step.failed(phase.NAMESPACE, choice.refusal, choice.message))
        claim = claims.get(choice.name)
        # An Environment of the same name was deleted; its namespace still terminates.
        if claim is not None and claim.uid != owner.uid:
            return NamespaceResult(_predecessor_result(choice.name, await self._read(choice.name)))
        desired = owned_objects.namespace(choice.name, owner, pod_security)
        created = await self._create(desired) if claim is None else await self._restore(desired)
        if created is None:
            return NamespaceResult(_name_conflict_result(choice.name))
        return NamespaceResult(_namespace_result(created), created)

    def find_active(self, identity: EnvironmentIdentity, owner_uid: str) -> Object | None:
        """The namespace of an Environment as it is; None if there is none or it terminates."""
        live = self._cache.namespace(self._existing_name(identity, owner_uid))
        return None if live is None or live["metadata"].get("deletionTimestamp") else live

    def _has_pod_security_drift(self, desired: Object) -> bool:
        """Whether others changed the Pod Security labels that we applied."""
        live = self._cache.namespace(desired["metadata"]["name"]) or desired
        owned = managed_fields.owned_fields(live, self._field_manager) or live
        labels, ours = map(owned_objects.pod_security_labels, (live, owned))
        levels = owned_objects.pod_security_labels(desired)
        # A label that differs and is still ours is none: another level is desired than before.
        return any(labels.get(name) != level and name not in ours for name, level in levels.items())

    async def remove(self, name: str, owner_uid: str) -> Object | None:
        """Delete the namespace if `owner_uid` owns it; the terminating one, or None if gone."""
        live = await self._read(name)
        if live is None or ownership.owner_uid(live) != owner_uid:
            return None
        return live if live["metadata"].get("deletionTimestamp") else await self._delete(live)

    async def find_namespaces(
        self, identity: EnvironmentIdentity, owner_uid: str, reported: str
    ) -> tuple[str, ...]:
        """The namespaces of an Environment: cached, by candidate name, or `reported` in status."""
        candidates = {*naming.candidate_names(identity, self._naming), *filter(None, (reported,))}
        names = set(self._cache.namespaces_of(owner_uid))
        for name in candidates - names:
            live = await self._read(name)
            if live is not None and ownership.owner_uid(live) == owner_uid:
                names.add(name)
        return tuple(sorted(names))

    def _existing_name(self, identity: EnvironmentIdentity, uid: str) -> str:
        """The name of the namespace that exists already, also one named by older rules."""
        for name in naming.candidate_names(identity, self._naming):
            live = self._cache.namespace(name)
            if live is not None and ownership.owner_uid(live) == uid:
                return name
        return next(iter(self._cache.namespaces_of(uid)), "")

    async def _claims(self, identity: EnvironmentIdentity) -> dict[str, NamespaceClaim]:
        claims: dict[str, NamespaceClaim] = {}
        for name in naming.candidate_names(identity, self._naming):
            live = await self._read(name)
            if live is not None:
                claims[name] = NamespaceClaim(
                    ownership.owner_uid(live),
                    ownership.owner_key(live),
                )
        return claims

    async def _read(self, name: str) -> Object | None:
        """The namespace; from the cache only if it is owned, else by a request (rule 2)."""
        cached = self._cache.namespace(name)
        if cached is not None and ownership.owner_uid(cached):
            return cached
        try:
            return await self._api.get(NAMESPACES, name)
        except NotFound:
            return None

    async def _create(self, desired: Object) -> Object | None:
        failpoint.reach("environments.namespace.before")
        name = desired["metadata"]["name"]
        create = self._api.create(NAMESPACES, desired, field_manager=self._field_manager)
        try:
            await self._cache.await_write(NAMESPACES, "", name, create)
        except AlreadyExists:
            return None
        failpoint.reach("environments.namespace.after")
        return await self._restore(desired)

    async def _restore(self, desired: Object) -> Object:
        """Apply our labels and annotations if they differ; those of others stay."""
        name = desired["metadata"]["name"]
        live = self._cache.namespace(name)
        if live is not None and self._owned.is_up_to_date(desired, live):
            return live
        ensure = self._owned.ensure(NAMESPACES, desired, live)
        return await self._cache.await_write(NAMESPACES, "", name, ensure)

    async def _delete(self, live: Object) -> Object | None:
        failpoint.reach("environments.namespace.delete.before")
        name, uid = live["metadata"]["name"], live["metadata"]["uid"]
        delete = self._api.delete(NAMESPACES, name, uid=uid)
        try:
            terminating = await self._cache.await_termination(NAMESPACES, name, delete)
        except NotFound:
            # Whatever a late cache shows.
            return None
        except Conflict:
            return live
        failpoint.reach("environments.namespace.delete.after")
        return terminating


def deletion_blockers(live: Object) -> tuple[str, ...]:
    """What blocks the deletion of a namespace: its finalizers first, then its conditions.

    Finalizers of the Namespace object itself appear in no condition, and block it all the same.
    """
    finalizers = live["metadata"].get("finalizers") or []
    rows = (live.get("status") or {}).get("conditions") or []
    reported = [
        f"{row.get('type')}: {row.get('message', '')}"[:256]
        for row in rows
        if row.get("status") == "True" and str(row.get("type", "")).startswith("Namespace")
    ]
    # Finalizers first: they name what has to be removed, remaining content only follows from it.
    reported.sort(key=lambda text: not text.startswith("NamespaceFinalizersRemaining"))
    texts = [f"finalizer {name} on namespace {live['metadata']['name']}" for name in finalizers]
    return tuple([*texts, *reported][:5])


def _namespace_result(live: Object) -> StepResult:
    name = live["metadata"]["name"]
    if live["metadata"].get("deletionTimestamp"):
        text = f"namespace {name} is terminating; it will be created again{_blocked_by(live)}"
        return step.waiting(phase.NAMESPACE, "NamespaceTerminating", text, after=_REQUEUE_SECONDS)
    return step.success(phase.NAMESPACE, "NamespaceActive", f"Namespace {name} is active")


def _predecessor_result(name: str, live: Object | None) -> StepResult:
    text = (
        f"waiting for namespace {name} of a deleted Environment with the same name to terminate"
        f"{_blocked_by(live) if live is not None else ''}"
    )
    return step.waiting(phase.NAMESPACE, "NamespaceTerminating", text, after=_REQUEUE_SECONDS)


def _blocked_by(live: Object) -> str:
    """The end of a message about a terminating namespace: what blocks it; empty if nothing."""
    blockers, name = deletion_blockers(live), live["metadata"]["name"]
    return (
        f"; blocked by {blockers[0]} (see kubectl get namespace {name} -o yaml)" if blockers else ""
    )


def _name_conflict_result(name: str) -> StepResult:
    text = f"namespace {name} was just created by another client; retrying"
    return step.waiting(phase.NAMESPACE, "NamespacePending", text, after=1.0)
