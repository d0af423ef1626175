"""The state of a cluster as a value."""

from __future__ import annotations

from windlass_dev.cluster.cluster_state import ClusterState, RecordedProcess


def test_process_is_recorded_and_forgotten() -> None:
    """Each start replaces the previous process of the component, an end removes it."""
    first, second = RecordedProcess(1, 10, "/bin/etcd", ""), RecordedProcess(2, 20, "/bin/etcd", "")
    state = ClusterState("x", {}, {}).with_process("etcd", first)
    assert state.with_process("etcd", second).processes == {"etcd": second}
    assert state.with_process("etcd", None).processes == {}
    assert state.processes == {"etcd": first}
