"""From a resolved commit to the bundle that is applied."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from tests.support.environments.manifests import OWNER, TARGET
from windlass.api.kinds.environment import Environment
from windlass.api.kinds.project import Project
from windlass.base.errors import Pending
from windlass.environments.bundle.bundle import Bundle, BundleRefused
from windlass.environments.preconditions import EnvironmentContext
from windlass.environments.render.api_capabilities import ApiCapabilities
from windlass.environments.render.output_store import OutputStore
from windlass.environments.render.renderer import BundleRenderer, ChartRenderer, RenderMemory
from windlass.environments.source.commits import SourceFiles
from windlass.environments.status import SourceCommit
from windlass.kube.errors import NotFound
from windlass.objects.names import Object
from windlass.runtime.pending_calls import PendingCalls

_ENVIRONMENT: Object = {
    "metadata": {"name": "pr-1", "namespace": "team-a", "uid": "uid-1"},
    "spec": {"projectRef": {"name": "shop"}, "type": "staging"},
}
_PROJECT: Object = {
    "metadata": {"name": "shop", "namespace": "team-a", "uid": "uid-2"},
    "spec": {
        "sources": [{"name": "primary", "repositoryUrl": "https://example.org/shop"}],
        "templates": {"default": {"type": "helm", "path": "chart"}},
    },
}
_SUBJECT = EnvironmentContext(
    msgspec.convert(_ENVIRONMENT, Environment),
    _ENVIRONMENT,
    msgspec.convert(_PROJECT, Project),
    OWNER,
)
_DRAWN = "apiVersion: v1\nkind: Secret\nmetadata: {{name: drawn}}\nstringData: {{lot: '{}'}}\n"
_ROLE = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: all}\n"


class Services:
    """Commits whose chart is their own name, a helm that draws, a server with one Secret."""

    def __init__(self) -> None:
        self.drawn = itertools.count()
        self.stored: Object | None = None

    async def read_files(
        self, _: str, wanted: Any, settled: SourceCommit, *rest: Any, known_tree: str
    ) -> SourceFiles:
        return SourceFiles(settled.commit, {"chart/Chart.yaml": settled.commit.encode()})

    async def template(self, chart: dict[str, bytes], *_: Any) -> tuple[bytes, bytes]:
        return self._rendered(chart), self._rendered(chart)

    def _rendered(self, chart: dict[str, bytes]) -> bytes:
        text = _DRAWN.format(next(self.drawn))
        return (text if chart["Chart.yaml"] == b"good" else f"{text}---\n{_ROLE}").encode()

    async def get(self, *_: Any) -> Any:
        if not _:
            return ApiCapabilities("v1.35.4", ())
        if self.stored is None:
            raise NotFound(404, "NotFound", "no such Secret")
        return self.stored

    async def apply(self, _: Any, obj: Object, *, field_manager: str) -> None:
        self.stored = obj

    def monotonic(self) -> float:
        return 0.0

    def record_render(self, *_: Any) -> None: ...

    def record_render_rejection(self, *_: Any) -> None: ...

    def rendering(self) -> tuple[BundleRenderer, RenderMemory]:
        """That of an operator that has just been started."""
        services: Any = self
        charts = ChartRenderer(services, services, OutputStore(services, field_manager="us"))
        calls = PendingCalls(lambda _: None)
        return BundleRenderer(services, charts, calls, services, services), RenderMemory()


async def _bundle(rendering: tuple[BundleRenderer, RenderMemory], commit: str) -> Bundle:
    renderer, memory = rendering
    commits = (SourceCommit("primary", "main", commit, "x"),)
    while True:
        try:
            return await renderer.render(_SUBJECT, commits, TARGET, memory)
        except Pending:
            await asyncio.sleep(0.001)


async def test_a_refused_render_does_not_replace_the_stored_one() -> None:
    """Going back to the previous commit gives its generated values, also after a restart."""
    services = Services()
    first = services.rendering()
    runs = await _bundle(first, "good")
    with pytest.raises(BundleRefused, match="ClusterRole/all"):
        await _bundle(first, "bad")
    assert await _bundle(first, "good") == runs
    with pytest.raises(BundleRefused):
        await _bundle(services.rendering(), "bad")
    assert await _bundle(services.rendering(), "good") == runs


async def test_a_recreated_namespace_gets_its_output_stored_again() -> None:
    """Its Secret was deleted with the old one; without it a restart would generate new values."""
    services = Services()
    renderer, _ = services.rendering()
    await _bundle((renderer, RenderMemory()), "good")
    services.stored = None
    runs = await _bundle((renderer, RenderMemory()), "good")
    assert await _bundle(services.rendering(), "good") == runs
