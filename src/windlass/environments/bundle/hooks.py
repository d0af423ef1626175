"""Helm hooks: the phase in which an object with a hook annotation is applied.

| `helm.sh/hook` | In the first revision | In later ones |
|---|---|---|
| pre-install | before everything else | - |
| pre-upgrade | - | before everything else |
| post-install | after the rollout | - |
| post-upgrade | - | after the rollout |
| all others | - | - |

Every revision counts as the first until one was ready. Hooks of one phase are applied one after
the other, by `helm.sh/hook-weight`, then by kind in the order in which kinds are applied, then
by name. The next one waits until a Job is complete or a Pod has succeeded; an object of
another kind is done once it exists. Hooks of no supported phase are left out and listed; helm
itself refuses annotations that it does not know.

`render.manifests` parses hooks, `apply` runs them.

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
    """The phases of a hook."""

    weight: int  # order within a phase, ascending
    at_install: HookPhase | None  # None where it does not run in a first revision
    at_upgrade: HookPhase | None  # None where it does not run in later ones

    def when(self, *, is_upgrade: bool) -> HookPhase | None:
        """The phase of the hook in a revision; None if it does not run in it."""
        return self.at_upgrade if is_upgrade else self.at_install


def runs_to_completion(obj: Object) -> bool:
    """Whether a hook of this kind runs to completion, as Jobs and Pods do."""
    return kinds.group_kind(obj) in _COMPLETING_KINDS


def is_skipped(obj: Object) -> bool:
    """Whether an object is a hook of unsupported phases only, and is left out."""
    events = _events(obj)
    return bool(events) and not _SUPPORTED.intersection(events)


def skipped_hooks(obj: Object) -> Iterator[str]:
    """Descriptions of the phases in which a hook does not run, for `status.unsupported`."""
    for event in _events(obj):
        if event not in _SUPPORTED:
            shown = event[:_SHOWN_CHARS]
            yield f"{field_rules.describe(obj)} is not run as a {shown} hook"
    for phases in (_INSTALL, _UPGRADE):
        repeated = [event for event in phases if event in _events(obj)]
        if runs_to_completion(obj) and len(repeated) > 1:
            name, ran, skipped = field_rules.describe(obj), *repeated
            yield f"{name} is not run as a {skipped} hook, because it runs as a {ran} hook"


def parse_hook(obj: Object) -> Hook | None:
    """The hook phases of an object; None for one that is applied with the rest."""
    events = _events(obj)
    if not _SUPPORTED.intersection(events):
        return None
    return Hook(_weight(obj), _first_phase(_INSTALL, events), _first_phase(_UPGRADE, events))


def _first_phase(phases: dict[str, HookPhase], events: tuple[str, ...]) -> HookPhase | None:
    return next((phase for event, phase in phases.items() if event in events), None)


def _events(obj: Object) -> tuple[str, ...]:
    words = _annotation(obj, HOOK_ANNOTATION).split(",")
    return tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip()))


def _weight(obj: Object) -> int:
    try:
        return int(_annotation(obj, WEIGHT_ANNOTATION))
    except ValueError:
        # As in helm: a weight that is no number counts as 0.
        return 0


def _annotation(obj: Object, name: str) -> str:
    # The shape of annotations is checked later (`shapes`), so it is not known yet.
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    value = annotations.get(name) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else ""
