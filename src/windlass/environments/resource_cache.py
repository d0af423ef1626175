"""Cache of Projects and Environments as stored, and of which depends on which.

Filled by three informers; decoding is remembered by the bytes of the object. `stored_…` answers
also for objects that break a rule, the decoded forms raise for those.
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
from windlass.objects.names import Key, Object
from windlass.runtime.informer import Informer


@dataclass(frozen=True, slots=True)
class ResourceCache:
    """Our two kinds, and the namespaces for which the administrator names a team."""

    projects: Informer
    environments: Informer
    teams: Informer

    @property
    def informers(self) -> tuple[Informer, ...]:
        return self.projects, self.environments, self.teams

    @property
    def is_synced(self) -> bool:
        """Whether everything stored has been read."""
        return all(informer.synced.is_set() for informer in self.informers)

    def team(self, namespace: str) -> str:
        """The team that the administrator names for a namespace; empty where none is named."""
        raw = self.teams.get(Key("", namespace))
        labels = orjson.loads(raw)["metadata"].get("labels") if raw is not None else None
        return str((labels or {}).get(ownership.TEAM) or "")

    def environments_in(self, namespace: str) -> Iterator[Key]:
        """The Environments that live in a namespace, readable or not."""
        return (key for key in tuple(self.environments.keys()) if key.namespace == namespace)

    def project(self, key: Key) -> Project | None:
        raw = self.projects.get(key)
        return _decode_project(raw) if raw is not None else None

    def environment(self, key: Key) -> Environment | None:
        raw = self.environments.get(key)
        return _decode_environment(raw) if raw is not None else None

    def stored_environment(self, key: Key) -> Object | None:
        """An Environment as the object it is stored as, whether it can be understood or not."""
        raw = self.environments.get(key)
        return orjson.loads(raw) if raw is not None else None

    def stored_project(self, key: Key) -> Object | None:
        """A Project as the object it is stored as, whether it can be understood or not."""
        raw = self.projects.get(key)
        return orjson.loads(raw) if raw is not None else None

    def environments_of(self, project: Key) -> Iterator[Key]:
        """The Environments that name a Project, readable or not."""
        for key in tuple(self.environments.keys()):
            if self.project_of(key) == project:
                yield key

    def project_of(self, environment: Key) -> Key | None:
        """The Project that an Environment names, readable or not."""
        stored = self.stored_environment(environment)
        if stored is None:
            return None
        ref = project_ref(stored)
        return Key(ref.get("namespace") or environment.namespace, ref.get("name") or "")

    def phases_of(self, project: Key) -> list[str]:
        """The phases of a Project's Environments, as they were last said."""
        found = (self.stored_environment(key) or {} for key in self.environments_of(project))
        return [(stored.get("status") or {}).get("phase") or "" for stored in found]

    def used_namespaces(self) -> frozenset[str]:
        """Namespaces that hold objects of ours; none of them is ever a preview."""
        keys = (*self.projects.keys(), *self.environments.keys())
        return frozenset(key.namespace for key in keys)

    def readable_project(self, key: Key) -> Project | None:
        """A Project that can be understood; None also for one that is stored broken."""
        try:
            return self.project(key)
        except WindlassError:
            return None


# The same bytes mean the same; a Project is looked at in every pass over its Environments.
@functools.lru_cache(maxsize=128)
def _decode_project(raw: bytes) -> Project:
    return Project.decode(raw)


@functools.lru_cache(maxsize=128)
def _decode_environment(raw: bytes) -> Environment:
    return Environment.decode(raw)


def project_ref(stored: Object) -> Object:
    """The `projectRef` of an Environment as it is stored; empty where there is none."""
    spec = stored.get("spec")
    found = spec.get("projectRef") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}
