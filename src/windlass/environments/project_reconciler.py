"""Reconciles one Project: are its repositories reachable, and how are its Environments?

A Project that is being deleted waits for the Environments that use it:

| `deletionPolicy` | Environments | Does |
|---|---|---|
| Block | there are some | names them in DeletionBlocked |
| Cascade | there are some | deletes them, each by its uid, and names those that are left |
| either | none | removes the finalizer |

Only Environments that the Project is shared with count: others cannot hold it, and are
never deleted with it.
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
from windlass.kube.api import Api
from windlass.kube.errors import Conflict, NotFound
from windlass.objects.condition import Condition
from windlass.objects.names import Key, Object
from windlass.runtime import finalizer
from windlass.runtime.outcome import Outcome, OutcomeEvent, Verdict

SOURCES_READY = "SourcesReady"
DELETION_BLOCKED = "DeletionBlocked"

_REQUEUE_SECONDS = 5.0
_DELETION_SECONDS = 30.0
_MOST_NAMED = 10


class ProjectReconciler:
    """Every Project."""

    def __init__(
        self,
        api: Api,
        cache: ResourceCache,
        sources: SourceRepositories,
        *,
        field_manager: str,
        poll_seconds: float,
        suspended: bool,
    ) -> None:
        self._api = api
        self._field_manager = field_manager
        self._cache = cache
        self._sources = sources
        self._poll_seconds = poll_seconds
        self._suspended = suspended

    async def reconcile(self, key: Key) -> Outcome:
        """One pass."""
        obj = self._cache.stored_project(key)
        if obj is None:
            return Outcome.gone()
        if obj["metadata"].get("deletionTimestamp"):
            return await self._delete(key, obj)
        found = self._cache.project(key)
        assert found is not None, "nothing waits between looking and reading"
        tally: Object = {"environments": self._count_environments(key)}
        if self._suspended or found.spec.suspend:
            own = "it is suspended; nothing is changed until spec.suspend is false"
            text = OPERATOR_SUSPENDED if self._suspended else own
            return Outcome(Verdict(None, "Suspended", text), fields=tally)
        if not finalizer.has_finalizer(obj, project.FINALIZER):
            return await self._add_finalizer(obj)
        return await self._check_sources(key, found, tally)

    async def _check_sources(self, key: Key, found: Project, tally: Object) -> Outcome:
        heads: list[Object] = []
        for source in found.spec.sources or ():
            secret = source.secret_ref.name if source.secret_ref is not None else ""
            wanted = DesiredSource(source.name, source.repository_url, secret, source.branch, "")
            try:
                settled = await self._sources.resolve(
                    key.namespace, wanted, max_age_seconds=self._poll_seconds
                )
            except WindlassError as error:
                return _unreachable_outcome(source.name, error, tally)
            heads.append({"name": source.name, "head": settled.commit})
        text = f"{len(heads)} repositories can be read"
        return Outcome(
            Verdict("True", "Succeeded", text),
            conditions=(Condition(SOURCES_READY, "True", "SourcesReady", text),),
            fields={**tally, "sources": heads},
            requeue_after=self._poll_seconds,
        )

    # ---- deletion

    async def _add_finalizer(self, obj: Object) -> Outcome:
        """Its own change leads back here."""
        await finalizer.add_finalizer(
            self._api,
            project.KIND.gvr,
            obj,
            project.FINALIZER,
            field_manager=self._field_manager,
        )
        return Outcome.postponed(_REQUEUE_SECONDS)

    async def _delete(self, key: Key, obj: Object) -> Outcome:
        """One pass over a Project that is being deleted, readable or not."""
        if not finalizer.has_finalizer(obj, project.FINALIZER):
            return Outcome.gone()
        users = list(self._dependent_environments(key, obj))
        if not users:
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
            for user in users:
                await self._delete_environment(user)
        return _deletion_outcome(users, cascades=cascades)

    def _dependent_environments(self, key: Key, obj: Object) -> Iterator[Object]:
        """The Environments that may use a Project, as they are stored."""
        granted = {key.namespace, *(_raw_spec(obj).get("environmentNamespaces") or ())}
        for name in sorted(self._cache.environments_of(key)):
            stored = self._cache.stored_environment(name)
            if stored is not None and name.namespace in granted:
                yield stored

    async def _delete_environment(self, stored: Object) -> None:
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


def _deletion_outcome(users: list[Object], *, cascades: bool) -> Outcome:
    """What is reported while Environments are left."""
    count = len(users)
    names = [f"{user['metadata']['namespace']}/{user['metadata']['name']}" for user in users]
    listed = ", ".join(names[:_MOST_NAMED]) + (", …" if count > _MOST_NAMED else "")
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
    found = obj.get("spec")
    return found if isinstance(found, dict) else {}


def _unreachable_outcome(name: str, error: WindlassError, fields: Object) -> Outcome:
    text = f"source {name}: {error.reason}: {error.message}"
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
