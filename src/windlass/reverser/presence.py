"""Who is alive, as far as a running snapshot has seen.

Only a snapshot that came whole, and in which every object had a name, proves anything;
then `sweep` says what each destination may conclude from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from windlass.kube.reflector import Scope
from windlass.objects.names import Identity, Key
from windlass.reverser.arrival import Sweep
from windlass.reverser.decide.transition import Operation


@dataclass(slots=True)
class Presence:
    """Which files are alive in each destination, how many objects came, and who had no name.

    `aside` are the paths of objects that came and are not mirrored, and what those are.
    """

    started: float
    live: dict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))
    aside: dict[Key, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    items: int = 0
    nameless: bool = False

    def sweep(
        self,
        scope: Scope,
        kind: str,
        coverage: tuple[Key, str, frozenset[Operation]],
        missed: Iterable[Key],
    ) -> Sweep:
        """What a destination may conclude; `missed` were tracked and did not come."""
        destination, namespace, mask = coverage
        return Sweep(
            gvr=scope.gvr,
            kind=kind,
            namespace=namespace,
            live=frozenset(self.live.get(destination, ())),
            empty=self.items == 0,
            mask=mask,
            missed=tuple(
                Identity(scope.gvr, key.namespace, key.name)
                for key in missed
                if namespace in ("", key.namespace)
            ),
            aside=self.aside.get(destination, {}),
        )
