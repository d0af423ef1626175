"""Reconciles one Project: checks its repositories, counts its Environments, orders its deletion.

A Project that is being deleted waits for the Environments that use it:

| `deletionPolicy` | Environments | Does |
|---|---|---|
| Block | some | lists them in DeletionBlocked |
| Cascade | some | deletes them, each by its uid, and lists those that remain |
| either | none | removes the finalizer |

Only Environments that the Project is shared with count: others cannot block it, and are
never deleted with it.

Called by the `project` controller, one key at a time, up to 16 keys at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from windlass.api.kinds import environment, project
from windlass.api.kinds.project import Project
from windlass.base import failpoint
from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.environments.preconditions import OPERATOR_SUSPENDED
from windlass.environments.resource_cache import ResourceCache
from windlass.environments.source.commits import SourceRepositories
from windlass.environments.spec import DesiredSource
from windlass.environments.status import SourceCommit
from windlass.kube.api import Api
from windlass.kube.errors import Conflict, NotFound
from windlass.objects.condition import Condition
from windlass.objects.names import Key, Object, format_count
from windlass.runtime import finalizer
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict
from windlass.runtime.pending_calls import PendingCalls

SOURCES_READY = "SourcesReady"
DELETION_BLOCKED = "DeletionBlocked"

_REQUEUE_SECONDS = 5.0
"""When to reconcile again after a write of ours, should its watch event not arrive."""

_DELETION_SECONDS = 30.0
"""How often a deletion checks the remaining Environments, beside their watch events."""

_MAX_NAMED = 10
"""Environments that a message lists by name."""


class ProjectReconciler:
    """Reconciles all Projects; `suspended` is the setting of the operator."""

    def __init__(
        self,
        api: Api,
        cache: ResourceCache,
        sources: SourceRepositories,
        calls: PendingCalls,
        *,
        field_manager: str,
        poll_seconds: float,
        suspended: bool,
    ) -> None:
        self._api = api
        self._field_manager = field_manager
        self._cache = cache
        self._sources = sources
        self._calls = calls
        self._poll_seconds = poll_seconds
        self._suspended = suspended

    async def reconcile(self, key: Key) -> Outcome:
        """Check the sources of one Project, or continue its deletion."""
        obj = self._cache.stored_project(key)
        if obj is None:
            self._calls.forget(key)
            return Outcome.gone()
        if obj["metadata"].get("deletionTimestamp"):
            return await self._delete(key, obj)
        decoded = self._cache.project(key)
        assert decoded is not None, "there is no await between the lookup and this"
        counts: Object = {"environments": self._count_environments(key)}
        if self._suspended or decoded.spec.suspend:
            own_text = "suspended by spec.suspend; set it to false to resume"
            text = OPERATOR_SUSPENDED if self._suspended else own_text
            return Outcome(Verdict(None, "Suspended", text), fields=counts)
        if not finalizer.has_finalizer(obj, project.FINALIZER):
            return await self._add_finalizer(obj)
        return await self._check_sources(key, decoded, counts)

    async def _check_sources(self, key: Key, decoded: Project, counts: Object) -> Outcome:
        """Resolve the branch of each source; the first that fails decides the outcome."""
        heads: list[Object] = []
        for source in decoded.spec.sources or ():
            secret = source.secret_ref.name if source.secret_ref is not None else ""
            desired = DesiredSource(source.name, source.repository_url, secret, source.branch, "")
            try:
                resolved = await self._resolve(key, desired)
            except WindlassError as error:
                return _unreachable_outcome(source.name, error, counts)
            heads.append({"name": source.name, "head": resolved.commit})
        text = f"{format_count(len(heads), 'repository', 'repositories')} reachable"
        return Outcome(
            Verdict("True", "Succeeded", text),
            conditions=(Condition(SOURCES_READY, "True", "SourcesReady", text),),
            fields={**counts, "sources": heads},
            requeue_after=self._poll_seconds,
        )

    async def _resolve(self, key: Key, desired: DesiredSource) -> SourceCommit:
        return await self._calls.result(
            key,
            f"source {desired.name}",
            desired,
            lambda: self._sources.resolve(
                key.namespace, desired, max_age_seconds=self._poll_seconds
            ),
        )

    # ---- deletion

    async def _add_finalizer(self, obj: Object) -> Outcome:
        """Set the finalizer; the watch event of this write triggers the next reconcile."""
        await finalizer.add_finalizer(
            self._api,
            project.KIND.gvr,
            obj,
            project.FINALIZER,
            field_manager=self._field_manager,
        )
        return Outcome.postponed(_REQUEUE_SECONDS)

    async def _delete(self, key: Key, obj: Object) -> Outcome:
        """Delete or report the Environments of a Project, valid or not; then its finalizer."""
        if not finalizer.has_finalizer(obj, project.FINALIZER):
            return Outcome.gone()
        environments = list(self._dependent_environments(key, obj))
        if not environments:
            await finalizer.remove_finalizer(
                self._api,
                project.KIND.gvr,
                obj,
                project.FINALIZER,
                field_manager=self._field_manager,
            )
            return Outcome.gone()
        cascades = _raw_spec(obj).get("deletionPolicy") == "Cascade"
        if cascades:
            for stored in environments:
                await self._delete_environment(stored)
        return _deletion_outcome(environments, cascades=cascades)

    def _dependent_environments(self, key: Key, obj: Object) -> Iterator[Object]:
        """The stored Environments that name a Project and may use it."""
        shared_with = {key.namespace, *(_raw_spec(obj).get("environmentNamespaces") or ())}
        for environment_key in sorted(self._cache.environments_of(key)):
            stored = self._cache.stored_environment(environment_key)
            if stored is not None and environment_key.namespace in shared_with:
                yield stored

    async def _delete_environment(self, stored: Object) -> None:
        """Delete an Environment by its uid, so that one recreated under its name survives."""
        metadata = stored["metadata"]
        if metadata.get("deletionTimestamp"):
            return
        failpoint.reach("environments.cascade.before")
        with contextlib.suppress(NotFound, Conflict):
            await self._api.delete(
                environment.KIND.gvr,
                metadata["name"],
                metadata["namespace"],
                uid=metadata["uid"],
            )
        failpoint.reach("environments.cascade.after")

    def _count_environments(self, key: Key) -> Object:
        phases = self._cache.phases_of(key)
        return {
            "total": len(phases),
            "ready": phases.count("Ready"),
            "failed": phases.count("Failed"),
        }


def _deletion_outcome(environments: list[Object], *, cascades: bool) -> Outcome:
    """The outcome of a deletion that waits for Environments."""
    count = len(environments)
    names = [
        f"{stored['metadata']['namespace']}/{stored['metadata']['name']}" for stored in environments
    ]
    listed = ", ".join(names[:_MAX_NAMED]) + (", …" if count > _MAX_NAMED else "")
    noun = "Environment" if count == 1 else "Environments"
    if cascades:
        return Outcome(
            Verdict("False", "Deleting", f"deleting {count} {noun}: {listed}"),
            reconciling=True,
            withdrawn=frozenset({DELETION_BLOCKED}),
            requeue_after=_DELETION_SECONDS,
        )
    verb, them = ("uses", "it") if count == 1 else ("use", "them")
    text = (
        f"{count} {noun} {verb} this Project: {listed}; delete {them}, or set "
        "spec.deletionPolicy to Cascade"
    )
    return Outcome(
        Verdict("False", "Deleting", text),
        reconciling=True,
        because=DELETION_BLOCKED,
        conditions=(Condition(DELETION_BLOCKED, "True", "EnvironmentsExist", text),),
        requeue_after=_DELETION_SECONDS,
        events=(OutcomeEvent("Warning", DELETION_BLOCKED, text),),
    )


def _raw_spec(obj: Object) -> Object:
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}


def _unreachable_outcome(name: str, error: WindlassError, fields: Object) -> Outcome:
    """The outcome for a source that cannot be resolved, and when to try it again."""
    text = f"source {name}: {error.message}"
    after = error.after if isinstance(error, Stalled | Waiting) else None
    return Outcome(
        Verdict("False", error.reason, text),
        stalled=isinstance(error, Stalled),
        reconciling=not isinstance(error, Stalled),
        conditions=(Condition(SOURCES_READY, "False", error.reason, text),),
        fields=fields,
        requeue_after=after,
        backoff=after is None,
        warns=True,
    )
