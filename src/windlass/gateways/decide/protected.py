"""What belongs to the gateway and never to Git (PRO-1).

The list is constant. A protected path, and everything below it, is never opened,
written, renamed or deleted; a walk over a data directory does not enter it. An operator may
protect further paths: mappings do not lead there, and they are excluded like patterns.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.gateways.decide import paths

STATE = ".ignition-sync"

_COMPONENTS = frozenset((".resources", ".git", STATE, ".sync-staging"))
_TOP = frozenset(
    (
        "db",
        "var",
        "logs",
        "jar-cache",
        "metricsdb",
        "redundancy.xml",
        ".uuid",
        "modules.json",
        "commissioning.json",
        ".ignition-seed-complete",
    )
)
_BELOW_CONFIG = ("config/local/", "config/resources/local/")
# Databases of tag values and their side files, wherever they lie: `**/*.idb*`.
_DATABASE = ".idb"


def is_protected(path: str) -> bool:
    """Whether `path`, relative to the data directory, is protected or lies below what is."""
    components = path.split("/")
    if components[0] in _TOP or not _COMPONENTS.isdisjoint(components):
        return True
    if _DATABASE in path and any(_DATABASE in component for component in components):
        return True
    return f"{path}/".startswith(_BELOW_CONFIG)


def is_covered(path: str, protected_paths: Iterable[str]) -> bool:
    """Whether `path` is one of those that an operator protects, or lies below one."""
    return any(paths.is_below(path, one) for one in protected_paths if one)


def is_protected_in(folder: str, name: str) -> bool:
    """Whether `name`, directly in a `folder` that is not protected, is."""
    if name in _COMPONENTS or _DATABASE in name:
        return True
    if not folder:
        return name in _TOP
    return f"{folder}/{name}/" in _BELOW_CONFIG
