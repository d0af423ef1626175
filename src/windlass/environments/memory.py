"""What is remembered of one Environment from one reconcile to the next, in memory alone.

Nothing here is needed to be right: after a restart, or in a namespace that was recreated, all of
it is empty. The reconciler holds one memory per Environment, hands each service its part, and
drops it when the Environment is gone. The part about a namespace ends with the namespace, which is
recognized by its uid: a new one of the same name starts empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.environments.apply.apply_progress import ApplyMemory
from windlass.environments.isolation.desired_isolation import ComputedIsolation
from windlass.environments.isolation.isolation_writer import IsolationMemory
from windlass.environments.render.renderer import RenderMemory


@dataclass(slots=True)
class ContentMemory:
    """What is remembered of the objects inside one namespace."""

    namespace_uid: str
    isolation: IsolationMemory = field(default_factory=IsolationMemory)
    rendering: RenderMemory = field(default_factory=RenderMemory)
    applied: ApplyMemory = field(default_factory=ApplyMemory)


@dataclass(slots=True)
class EnvironmentMemory:
    """What is remembered of one Environment."""

    # The retry request for which cached answers were dropped; empty = none yet.
    retry: str = ""
    # The isolation maintained last; None before the first.
    isolation: ComputedIsolation | None = None
    # Of the namespace that was there in the last reconcile.
    content: ContentMemory = field(default_factory=lambda: ContentMemory(""))

    def content_of(self, namespace_uid: str) -> ContentMemory:
        """What is remembered of this namespace; of another one it is forgotten."""
        if self.content.namespace_uid != namespace_uid:
            self.content = ContentMemory(namespace_uid)
        return self.content
