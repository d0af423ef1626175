"""Which refs are requested from a repository: those of all IgnitionSyncs that use it."""

from __future__ import annotations

from typing import Any

import orjson

from windlass.gateways.controller.gateway_cache import GatewayCache
from windlass.git.format import refs
from windlass.git.format.remote import Remote
from windlass.kube.reflector import Observed
from windlass.objects.names import Key
from windlass.runtime.informer_registry import InformerRegistry

REMOTE = Remote.parse("https://host/site.git")


def _sync(name: str, repo: str, ref: object, **spec: object) -> Observed:
    metadata = {"name": name, "namespace": "plant", "uid": name, "resourceVersion": f"{repo} {ref}"}
    git = {"repo": repo, "ref": ref}
    gateway = {"apiKeySecretRef": {"name": "key"}}
    sync: dict[str, Any] = {
        "apiVersion": "sync.ignition.io/v1alpha1",
        "kind": "IgnitionSync",
        "metadata": metadata,
        "spec": {"git": git, "gateway": gateway, **spec},
    }
    return Observed("ADDED", orjson.dumps(sync), True)


def test_the_refs_of_all_syncs_of_a_repository_are_requested() -> None:
    """In any spelling; not those of other, paused, invalid or deleted IgnitionSyncs."""
    queued: list[Key] = []
    cache = GatewayCache(InformerRegistry(None), queued.append)  # type: ignore[arg-type]
    syncs = (
        _sync("a", "https://HOST:443/site", "main"),
        _sync("b", "https://host/site/", "v1"),
        _sync("c", "ssh://git@host/site.git", "over-ssh"),
        _sync("d", "https://host/site.git", "paused", paused=True),
        _sync("e", "https://host/site.git", 7),
        _sync("f", "https://host/site.git", "a*"),
        _sync("g", "https://host/site.git", "gone"),
    )
    for sync in syncs:
        cache.syncs.apply(sync)
    cache.syncs.apply(Observed("DELETED", syncs[-1].object, False))
    assert sorted(cache.requested_refs(REMOTE)) == ["main", "v1"]
    names = refs.ref_patterns_of(cache.requested_refs(REMOTE))
    assert names == {f"refs/{kind}/{name}" for kind in ("heads", "tags") for name in ("main", "v1")}
    cache.syncs.apply(_sync("a", "https://host/other", "main"))
    assert sorted(cache.requested_refs(REMOTE)) == ["v1"]
    assert len(queued) >= len(syncs)
