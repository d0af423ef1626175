"""A control plane that the tests of this folder share and may hurt."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from windlass.dev.desk import Desk


@pytest.fixture(scope="session")
def victim() -> Iterator[Desk]:
    """Brought up by the command; whoever hurts it leaves it whole.

    It ends with a dead API server: what is dead already does not keep the rest alive.
    """
    from tests.support import cluster as support
    from tests.support import desk as commands
    from tests.support import lines
    from windlass.dev import cluster, components, desk, state

    name = support.name("victim")
    try:
        up = commands.run("up", "--name", name)
        assert up.returncode == 0, up.stderr
        assert up.stdout.startswith("https://127.0.0.1:")
        assert "is ready at" in up.stderr
        found = desk.named(name)
        yield found
        now = state.load(found.directory)
        assert now is not None
        commands.kill(now.processes[components.API_SERVER].pid)
        assert cluster.down(name)
        assert commands.remains(name) == []
    finally:
        lines.hang_up(name)
        cluster.down(name)
