"""A control plane that the tests of this folder share and may damage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from windlass_dev.cluster.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def victim() -> Iterator[LocalCluster]:
    """Brought up by the command; whoever hurts it leaves it whole.

    It ends with a dead API server: what is dead already does not keep the rest alive.
    """
    from tests.support.cluster import api_client
    from tests.support.cluster import control_plane as support
    from tests.support.cluster import dev_command as commands
    from windlass_dev.cluster import cluster, cluster_state, components, local_cluster

    name = support.name("victim")
    try:
        up = commands.run("up", "--name", name)
        assert up.returncode == 0, up.stderr
        assert up.stdout.startswith("https://127.0.0.1:")
        assert "is ready at" in up.stderr
        victim_cluster = local_cluster.get_cluster(name)
        yield victim_cluster
        now = cluster_state.load_state(victim_cluster.directory)
        assert now is not None
        commands.kill(now.processes[components.API_SERVER].pid)
        assert cluster.down(name)
        assert commands.find_leftovers(name) == []
    finally:
        api_client.close_connections(name)
        cluster.down(name)
