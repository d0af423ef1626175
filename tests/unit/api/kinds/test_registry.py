"""The registry has all of our kinds."""

from __future__ import annotations

from windlass.api.kinds import registry
from windlass.objects.names import GVR


def test_resources() -> None:
    """The URL names of the kinds are constants."""
    assert GVR("configbutler.ai", "v1alpha1", "gitrepoconfigs") == registry.GIT_REPO_CONFIGS
    assert str(registry.GIT_DESTINATIONS) == "configbutler.ai/v1alpha1/gitdestinations"
    assert registry.WATCH_RULES.resource == "watchrules"
    assert registry.CLUSTER_WATCH_RULES.resource == "clusterwatchrules"
    assert str(registry.IGNITION_SYNCS) == "sync.ignition.io/v1alpha1/ignitionsyncs"
    assert str(registry.PROJECTS) == "catalyst.catalyst.dev/v1alpha1/projects"


def test_every_kind_belongs_to_one_capability() -> None:
    """All kinds are those of the capabilities, each once."""
    parts = (registry.REVERSER_KINDS, registry.GATEWAY_KINDS, registry.ENVIRONMENT_KINDS)
    assert tuple(kind for part in parts for kind in part) == registry.KINDS
    assert len({kind.name for kind in registry.KINDS}) == len(registry.KINDS) == 7
