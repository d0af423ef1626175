"""Every kind of ours, by the capability that acts on it."""

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
