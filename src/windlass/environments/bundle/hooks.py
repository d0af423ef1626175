"""Helm hooks: when an object with a hook annotation is applied.

| `helm.sh/hook` | In the first revision | In later ones |
|---|---|---|
| pre-install | before everything else | - |
| pre-upgrade | - | before everything else |
| post-install | after the rollout | - |
| post-upgrade | - | after the rollout |
| all others | - | - |

The first revision is every one until one was ready. Hooks of one phase are applied one after
the other, by `helm.sh/hook-weight`, then by kind in the order in which kinds are applied, then
by name. The next one waits until a Job is complete or a Pod has succeeded; an object of
another kind is done once it exists. What serves none of these phases is left out, and
named; what names a hook that helm does not know never comes here.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from windlass.environments.bundle import field_rules, kinds
from windlass.objects.names import Object

HookPhase = Literal["preDeploy", "postDeploy"]

HOOK_ANNOTATION = "helm.sh/hook"
WEIGHT_ANNOTATION = "helm.sh/hook-weight"

_INSTALL: dict[str, HookPhase] = {"pre-install": "preDeploy", "post-install": "postDeploy"}
_UPGRADE: dict[str, HookPhase] = {"pre-upgrade": "preDeploy", "post-upgrade": "postDeploy"}
_SUPPORTED = frozenset(_INSTALL) | frozenset(_UPGRADE)
_SHOWN_CHARS = 63
_COMPLETING_KINDS = frozenset({("", "Pod"), ("batch", "Job")})


@dataclass(frozen=True, slots=True)
class Hook:
    """When an object is applied, and after which others."""

    weight: int
    at_install: HookPhase | None
    at_upgrade: HookPhase | None

    def when(self, *, is_upgrade: bool) -> HookPhase | None:
        """The moment in a revision; None if it does not run in it."""
        return self.at_upgrade if is_upgrade else self.at_install


def runs_to_completion(obj: Object) -> bool:
    """Whether a hook of this kind runs to an end."""
    return kinds.group_kind(obj) in _COMPLETING_KINDS


def is_skipped(obj: Object) -> bool:
    """Whether an object serves hooks alone that never run here."""
    events = _events(obj)
    return bool(events) and not _SUPPORTED.intersection(events)


def skipped_hooks(obj: Object) -> Iterator[str]:
    """What is left out of an object that a chart calls a hook, for people."""
    for event in _events(obj):
        if event not in _SUPPORTED:
            shown = event[:_SHOWN_CHARS]
            yield f"{field_rules.describe(obj)} as a {shown} hook"
    for moments in (_INSTALL, _UPGRADE):
        twice = [event for event in moments if event in _events(obj)]
        if runs_to_completion(obj) and len(twice) > 1:
            yield f"{field_rules.describe(obj)} as a {twice[1]} hook beside {twice[0]}"


def parse_hook(obj: Object) -> Hook | None:
    """The hook that an object is; None for one that is applied with the rest."""
    events = _events(obj)
    if not _SUPPORTED.intersection(events):
        return None
    return Hook(_weight(obj), _first_phase(_INSTALL, events), _first_phase(_UPGRADE, events))


def _first_phase(moments: dict[str, HookPhase], events: tuple[str, ...]) -> HookPhase | None:
    return next((when for event, when in moments.items() if event in events), None)


def _events(obj: Object) -> tuple[str, ...]:
    words = _annotation(obj, HOOK_ANNOTATION).split(",")
    return tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip()))


def _weight(obj: Object) -> int:
    try:
        return int(_annotation(obj, WEIGHT_ANNOTATION))
    except ValueError:
        # As helm reads it: what is no number weighs nothing.
        return 0


def _annotation(obj: Object, name: str) -> str:
    # Whether annotations have their shape is judged later, with everything else.
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    found = annotations.get(name) if isinstance(annotations, dict) else None
    return found if isinstance(found, str) else ""
