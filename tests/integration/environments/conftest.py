"""A tenant with a repository on the shared control plane."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.gitserver import Served, serving
from tests.support.previews import Previews, previews

if TYPE_CHECKING:
    from windlass.dev.desk import Desk


@pytest.fixture(scope="session")
def preview_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A git server that every test of this room shares."""
    with serving(tmp_path_factory.mktemp("previews")) as served:
        yield served


@pytest.fixture
async def tenant(
    cluster: Desk, namespace: str, preview_host: Served, tmp_path: Path
) -> AsyncIterator[Previews]:
    """A namespace of the test's own with a repository and nobody working on it yet."""
    async with previews(cluster, namespace, preview_host, tmp_path) as found:
        yield found
