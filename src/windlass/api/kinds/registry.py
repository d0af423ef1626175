"""The table of all kinds, by the capability that reconciles them, and their GVRs.

Short on purpose: it imports every kind, so no kind can import it.

Pure.
"""

from __future__ import annotations

from windlass.api.kinds import (
    environment,
    gitdestination,
    gitrepoconfig,
    ignitionsync,
    project,
    watchrules,
)
from windlass.api.schema.kind import Kind

REVERSER_KINDS: tuple[Kind, ...] = (
    gitrepoconfig.KIND,
    gitdestination.KIND,
    watchrules.WATCH_RULE_KIND,
    watchrules.CLUSTER_WATCH_RULE_KIND,
)
GATEWAY_KINDS: tuple[Kind, ...] = (ignitionsync.KIND,)
ENVIRONMENT_KINDS: tuple[Kind, ...] = (project.KIND, environment.KIND)

KINDS: tuple[Kind, ...] = (*REVERSER_KINDS, *GATEWAY_KINDS, *ENVIRONMENT_KINDS)
"""All of them: what an installation consists of."""

GIT_REPO_CONFIGS = gitrepoconfig.KIND.gvr
GIT_DESTINATIONS = gitdestination.KIND.gvr
WATCH_RULES = watchrules.WATCH_RULE_KIND.gvr
CLUSTER_WATCH_RULES = watchrules.CLUSTER_WATCH_RULE_KIND.gvr
IGNITION_SYNCS = ignitionsync.KIND.gvr
PROJECTS = project.KIND.gvr
