"""Every kind of ours, by type, by name and by the capability that acts on it."""

from __future__ import annotations

from windlass.api import (
    clusterwatchrule,
    environment,
    gitdestination,
    gitrepoconfig,
    ignitionsync,
    project,
    watchrule,
)
from windlass.api.kind import Kind
from windlass.api.resource import Resource

REVERSER_KINDS: tuple[Kind, ...] = (
    gitrepoconfig.KIND,
    gitdestination.KIND,
    watchrule.KIND,
    clusterwatchrule.KIND,
)
GATEWAY_KINDS: tuple[Kind, ...] = (ignitionsync.KIND,)
ENVIRONMENT_KINDS: tuple[Kind, ...] = (project.KIND, environment.KIND)

KINDS: tuple[Kind, ...] = (*REVERSER_KINDS, *GATEWAY_KINDS, *ENVIRONMENT_KINDS)
"""All of them: what an installation consists of."""

GIT_REPO_CONFIGS = gitrepoconfig.KIND.gvr
GIT_DESTINATIONS = gitdestination.KIND.gvr
WATCH_RULES = watchrule.KIND.gvr
CLUSTER_WATCH_RULES = clusterwatchrule.KIND.gvr
IGNITION_SYNCS = ignitionsync.KIND.gvr
PROJECTS = project.KIND.gvr
ENVIRONMENTS = environment.KIND.gvr

_BY_NAME = {kind.name: kind for kind in KINDS}


def kind_of(what: Resource | type[Resource] | str) -> Kind:
    """The kind of a value, of a type, or of a kind's name; LookupError if it is not ours."""
    name = _name(what)
    if name not in _BY_NAME:
        raise LookupError(f"{name} is not a kind of windlass; known are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def _name(what: Resource | type[Resource] | str) -> str:
    if isinstance(what, str):
        return what
    return what.__name__ if isinstance(what, type) else type(what).__name__
