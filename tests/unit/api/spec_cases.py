"""One value in an otherwise valid object, and whether the object is valid with it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

CANARY = "s3cr3t-canary"

GOOD: dict[str, dict[str, Any]] = {
    "GitRepoConfig": {"repoUrl": "https://git.example.com/infra.git", "allowedBranches": ["main"]},
    "GitDestination": {"repoRef": {"name": "infra"}, "branch": "main", "baseFolder": "clusters/x"},
    "WatchRule": {"destinationRef": {"name": "prod"}, "rules": [{}]},
    "ClusterWatchRule": {
        "destinationRef": {"name": "prod", "namespace": "windlass-system"},
        "rules": [{"scope": "Namespaced"}],
    },
    "IgnitionSync": {
        "git": {"repo": "https://git.example.com/plant/app.git", "ref": "main"},
        "gateway": {"apiKeySecretRef": {"name": "ignition-api"}},
    },
    "Project": {
        "sources": [{"name": "app", "repositoryUrl": "https://git.example.com/shop.git"}],
        "templates": {"default": {"type": "manifest"}},
    },
    "Environment": {
        "projectRef": {"name": "shop"},
        "type": "staging",
        "sources": [{"name": "app"}],
    },
}


@dataclass(frozen=True)
class Case:
    """A spec, whether it is valid, and the field that decides."""

    kind: str
    field: str
    spec: dict[str, Any]
    good: bool
    costly: bool = False
    """Judged in code alone, because the rule costs more than the server grants."""

    def __str__(self) -> str:
        verdict = "good" if self.good else "bad"
        return f"{verdict} {self.kind} {self.field}: {str(self.spec)[:300]!r}"


ABSENT = object()


def case(kind: str, field: str, value: Any, good: bool) -> Case:
    """The valid object of `kind` with `value` at the dotted `field`; numbers index lists."""
    spec = copy.deepcopy(GOOD[kind])
    container: Any = spec
    *steps, last = field.split(".")
    for step in steps:
        container = container[int(step)] if step.isdigit() else container.setdefault(step, {})
    if value is ABSENT:
        container.pop(last, None)
    elif last.isdigit():
        container[int(last)] = value
    else:
        container[last] = value
    return Case(kind, field, spec, good)


def values(kind: str, field: str, good: list[Any], bad: list[Any]) -> Iterator[Case]:
    """One case for each value."""
    yield from (case(kind, field, value, True) for value in good)
    yield from (case(kind, field, value, False) for value in bad)


def listed(values: list[Any]) -> list[Any]:
    """Each value as the only entry of a list."""
    return [[value] for value in values]
