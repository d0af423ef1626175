"""When an object that a chart calls a hook is applied.

| `helm.sh/hook` | In the first revision | In later ones |
|---|---|---|
| pre-install | before everything else | - |
| pre-upgrade | - | before everything else |
| post-install | after the rollout | - |
| post-upgrade | - | after the rollout |
| all others | - | - |

The first revision is every one until one was ready. Hooks of one moment are applied one after
the other, by `helm.sh/hook-weight`, then by kind in the order in which kinds are applied, then
by name. Whoever comes next waits until a Job is complete or a Pod has succeeded; an object of
another kind is done once it is there. What serves none of these moments is left out, and
named; what names a hook that helm does not know never comes here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from windlass.environments.decide import field_rules, kinds
from windlass.objects.names import Object

When = Literal["preDeploy", "postDeploy"]

EVENTS = "helm.sh/hook"
WEIGHT = "helm.sh/hook-weight"

_INSTALL: dict[str, When] = {"pre-install": "preDeploy", "post-install": "postDeploy"}
_UPGRADE: dict[str, When] = {"pre-upgrade": "preDeploy", "post-upgrade": "postDeploy"}
_SERVED = frozenset(_INSTALL) | frozenset(_UPGRADE)
_SHOWN_CHARS = 63
_WAITED_FOR = frozenset({("", "Pod"), ("batch", "Job")})


@dataclass(frozen=True, slots=True)
class Hook:
    """When an object is applied, and after which others."""

    weight: int
    at_install: When | None
    at_upgrade: When | None

    def when(self, *, is_upgrade: bool) -> When | None:
        """The moment in a revision; None if it does not run in it."""
        return self.at_upgrade if is_upgrade else self.at_install


def is_waited_for(obj: Object) -> bool:
    """Whether a hook of this kind runs to an end."""
    return kinds.type_of(obj) in _WAITED_FOR


def is_left_out(obj: Object) -> bool:
    """Whether an object serves hooks alone that never run here."""
    events = _events(obj)
    return bool(events) and not _SERVED.intersection(events)


def unserved(obj: Object) -> Iterator[str]:
    """What is left out of an object that a chart calls a hook, for people."""
    for event in _events(obj):
        if event not in _SERVED:
            shown = event[:_SHOWN_CHARS]
            yield f"{field_rules.describe(obj)} as a {shown} hook"
    for moments in (_INSTALL, _UPGRADE):
        twice = [event for event in moments if event in _events(obj)]
        if is_waited_for(obj) and len(twice) > 1:
            yield f"{field_rules.describe(obj)} as a {twice[1]} hook beside {twice[0]}"


def of(obj: Object) -> Hook | None:
    """The hook that an object is; None for one that is applied with the rest."""
    events = _events(obj)
    if not _SERVED.intersection(events):
        return None
    return Hook(_weight(obj), _first(_INSTALL, events), _first(_UPGRADE, events))


def _first(moments: dict[str, When], events: tuple[str, ...]) -> When | None:
    return next((when for event, when in moments.items() if event in events), None)


def _events(obj: Object) -> tuple[str, ...]:
    words = _annotation(obj, EVENTS).split(",")
    return tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip()))


def _weight(obj: Object) -> int:
    try:
        return int(_annotation(obj, WEIGHT))
    except ValueError:
        # As helm reads it: what is no number weighs nothing.
        return 0


def _annotation(obj: Object, name: str) -> str:
    # Whether annotations have their shape is judged later, with everything else.
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    found = annotations.get(name) if isinstance(annotations, dict) else None
    return found if isinstance(found, str) else ""
