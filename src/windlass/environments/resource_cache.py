"""Cache of Projects and Environments as stored, and of which Environment names which Project.

Filled by three informers; decoding is cached by the bytes of the object. The `stored_…` methods
also return objects that violate the schema, the decoding ones raise for those.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project
from windlass.base.errors import WindlassError
from windlass.environments import ownership
from windlass.environments.namespace.naming import EnvironmentIdentity
from windlass.objects.names import Key, Object
from windlass.runtime.informer import Informer


@dataclass(frozen=True, slots=True)
class ResourceCache:
    """Informers of our two kinds, and of the namespaces with the administrator's team label."""

    projects: Informer
    environments: Informer
    teams: Informer

    @property
    def informers(self) -> tuple[Informer, ...]:
        return self.projects, self.environments, self.teams

    @property
    def is_synced(self) -> bool:
        """Whether each informer has completed its first list."""
        return all(informer.synced.is_set() for informer in self.informers)

    def team(self, namespace: str) -> str:
        """The team label that the administrator set on a namespace; empty if there is none."""
        raw = self.teams.get(Key("", namespace))
        labels = orjson.loads(raw)["metadata"].get("labels") if raw is not None else None
        return str((labels or {}).get(ownership.TEAM) or "")

    def environments_in(self, namespace: str) -> Iterator[Key]:
        """The keys of the Environments in a namespace, valid or not."""
        return (key for key in tuple(self.environments.keys()) if key.namespace == namespace)

    def project(self, key: Key) -> Project | None:
        raw = self.projects.get(key)
        return _decode_project(raw) if raw is not None else None

    def environment(self, key: Key) -> Environment | None:
        raw = self.environments.get(key)
        return _decode_environment(raw) if raw is not None else None

    def stored_environment(self, key: Key) -> Object | None:
        """An Environment as it is stored, valid or not."""
        raw = self.environments.get(key)
        return orjson.loads(raw) if raw is not None else None

    def stored_project(self, key: Key) -> Object | None:
        """A Project as it is stored, valid or not."""
        raw = self.projects.get(key)
        return orjson.loads(raw) if raw is not None else None

    def environments_of(self, project: Key) -> Iterator[Key]:
        """The keys of the Environments that name a Project, valid or not."""
        for key in tuple(self.environments.keys()):
            if self.project_of(key) == project:
                yield key

    def project_of(self, environment: Key) -> Key | None:
        """The key of the Project that an Environment names; None if the Environment is gone."""
        stored = self.stored_environment(environment)
        if stored is None:
            return None
        ref = project_ref(stored)
        return Key(ref.get("namespace") or environment.namespace, ref.get("name") or "")

    def phases_of(self, project: Key) -> list[str]:
        """The phase in the status of each Environment of a Project; empty before its first."""
        environments = (self.stored_environment(key) or {} for key in self.environments_of(project))
        return [(stored.get("status") or {}).get("phase") or "" for stored in environments]

    def used_namespaces(self) -> frozenset[str]:
        """Namespaces that hold Projects or Environments; none of them may become a preview."""
        keys = (*self.projects.keys(), *self.environments.keys())
        return frozenset(key.namespace for key in keys)

    def readable_project(self, key: Key) -> Project | None:
        """A decoded Project; None also for one that violates the schema."""
        try:
            return self.project(key)
        except WindlassError:
            return None


# By the bytes of the object: a Project is needed in every reconcile of its Environments.
@functools.lru_cache(maxsize=128)
def _decode_project(raw: bytes) -> Project:
    return Project.decode(raw)


@functools.lru_cache(maxsize=128)
def _decode_environment(raw: bytes) -> Environment:
    return Environment.decode(raw)


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
