"""Cache of Projects and Environments as stored, and of which Environment names which Project.

Filled by three informers; decoding is cached by the bytes of the object. The `stored_…` methods
also return objects that violate the schema, the decoding ones raise for those. A change enqueues:

| what changed | enqueued |
|---|---|
| an Environment | itself, and the Project that it names or named |
| a Project | itself, and the Environments that name it |
| the team label of a namespace | the Environments in it |
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import orjson

from windlass.api.kinds import environment as environment_kind
from windlass.api.kinds import project as project_kind
from windlass.api.kinds.project import Project
from windlass.base.errors import WindlassError
from windlass.environments import ownership
from windlass.environments.namespace.naming import EnvironmentIdentity
from windlass.kube.reflector import Scope
from windlass.objects.names import Key, Object
from windlass.objects.resources import NAMESPACES
from windlass.runtime.informer_index import read_namespace
from windlass.runtime.informer_registry import InformerRegistry


class ResourceCache:
    """Informers of our two kinds, and of the namespaces with the administrator's team label."""

    def __init__(
        self,
        informers: InformerRegistry,
        enqueue_project: Callable[[Key], None],
        enqueue_environment: Callable[[Key], None],
    ) -> None:
        self._enqueue_project = enqueue_project
        self._enqueue_environment = enqueue_environment
        self.projects = informers.add(Scope(project_kind.KIND.gvr), self._project_changed)
        self.environments = informers.add(
            Scope(environment_kind.KIND.gvr), self._enqueue_environment
        )
        self._teams = informers.add(
            Scope(NAMESPACES, selector=ownership.TEAM_SELECTOR), self._team_changed
        )
        self._projects_by_namespace = self.projects.add_index(read_namespace)
        self._environments_by_namespace = self.environments.add_index(read_namespace)
        # By the Project that they name, which may wait for the deletion of an Environment.
        self._environments_by_project = self.environments.add_index(_read_project, enqueue_project)

    @property
    def is_synced(self) -> bool:
        """Whether each informer has completed its first list."""
        return all(
            informer.synced.is_set() for informer in (self.projects, self.environments, self._teams)
        )

    def team(self, namespace: str) -> str:
        """The team label that the administrator set on a namespace; empty if there is none."""
        raw = self._teams.get(Key("", namespace))
        labels = orjson.loads(raw)["metadata"].get("labels") if raw is not None else None
        return str((labels or {}).get(ownership.TEAM) or "")

    def project(self, key: Key) -> Project | None:
        raw = self.projects.get(key)
        return _decode_project(raw) if raw is not None else None

    def stored_environment(self, key: Key) -> Object | None:
        """An Environment as it is stored, valid or not."""
        raw = self.environments.get(key)
        return orjson.loads(raw) if raw is not None else None

    def stored_project(self, key: Key) -> Object | None:
        """A Project as it is stored, valid or not."""
        raw = self.projects.get(key)
        return orjson.loads(raw) if raw is not None else None

    def environments_of(self, project: Key) -> tuple[Key, ...]:
        """The keys of the Environments that name a Project, valid or not."""
        return self._environments_by_project.keys_of(project)

    def phases_of(self, project: Key) -> list[str]:
        """The phase in the status of each Environment of a Project; empty before its first."""
        environments = (self.stored_environment(key) or {} for key in self.environments_of(project))
        return [(stored.get("status") or {}).get("phase") or "" for stored in environments]

    def used_namespaces(self) -> frozenset[str]:
        """Namespaces that hold Projects or Environments; none of them may become a preview."""
        return frozenset(
            (*self._projects_by_namespace.values(), *self._environments_by_namespace.values())
        )

    def readable_project(self, key: Key) -> Project | None:
        """A decoded Project; None also for one that violates the schema."""
        try:
            return self.project(key)
        except WindlassError:
            return None

    def _project_changed(self, key: Key) -> None:
        self._enqueue_project(key)
        for environment in self.environments_of(key):
            self._enqueue_environment(environment)

    def _team_changed(self, key: Key) -> None:
        for environment in self._environments_by_namespace.keys_of(key.name):
            self._enqueue_environment(environment)


# By the bytes of the object: a Project is needed in every reconcile of its Environments.
@functools.lru_cache(maxsize=128)
def _decode_project(raw: bytes) -> Project:
    return Project.decode(raw)


def _read_project(key: Key, raw: bytes) -> Key | None:
    """The Project that an Environment names; None for one that cannot be decoded."""
    try:
        ref = project_ref(orjson.loads(raw))
    except orjson.JSONDecodeError:
        return None
    return Key(str(ref.get("namespace") or key.namespace), str(ref.get("name") or ""))


def project_ref(stored: Object) -> Object:
    """The `projectRef` of a stored Environment; empty if it has none, or none that is a map."""
    spec = stored.get("spec")
    ref = spec.get("projectRef") if isinstance(spec, dict) else None
    return ref if isinstance(ref, dict) else {}


def environment_identity(obj: Object) -> EnvironmentIdentity:
    """The identity of a stored Environment, by which its namespace is named."""
    metadata = obj["metadata"]
    project = str(project_ref(obj).get("name") or "")
    return EnvironmentIdentity(metadata["namespace"], project, metadata["name"])
