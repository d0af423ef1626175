"""Settings that nodes change on the machine outside of any namespace, and their undo.

The kubelet changes kernel settings, a few clusters exceed the default of a limit, and the
mount points they need may not exist. The values before the first node are recorded in
/run, which is lost at a reboot like the kernel's settings. The last node that is
unregistered undoes the changes: while another node exists, its mount points and settings
stay. A setting that another program changed since is left alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from windlass.base import failpoint, files
from windlass_dev import file_lock
from windlass_dev.node import kernel_namespaces

SET_BY_KUBELET: Mapping[str, str] = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}

MINIMUM_LIMITS: Mapping[str, int] = {"fs/inotify/max_user_instances": 1024}
"""Limits shared by all clusters of a user; a cluster with a node takes 17 inotify instances."""

_SETTINGS = Path("/proc/sys")
_RECORD = Path("/run/windlass/nodes.json")
_LOCK = Path("/run/windlass.lock")


@dataclass(frozen=True, slots=True)
class MachineRecord:
    """The machine before the first node, and the nodes that exist."""

    settings: Mapping[str, str]
    """Kernel settings before the first node, by path below /proc/sys."""
    made: tuple[str, ...]
    """Mount points that did not exist and were created."""
    nodes: tuple[str, ...]
    """Directories of the clusters with a node."""


def settings_to_restore(recorded: Mapping[str, str], current: Mapping[str, str]) -> dict[str, str]:
    """The recorded values of settings that still have the value a node gave them."""
    changed_to = {
        **SET_BY_KUBELET,
        **{name: str(minimum) for name, minimum in MINIMUM_LIMITS.items()},
    }
    return {
        name: value
        for name, value in recorded.items()
        if name in current and current[name] == changed_to.get(name) and value != current[name]
    }


def register_node(directory: Path) -> None:
    """Record the machine and the cluster in `directory`; raise limits, create mount points."""
    with _locked():
        record = _load() or MachineRecord({}, _missing_mount_points(), ())
        nodes = {*_existing_nodes(record.nodes), str(directory)}
        # An older version of windlass, which knew fewer settings, may have begun the record.
        settings = {**_read_settings(), **record.settings}
        _save(replace(record, settings=settings, nodes=tuple(sorted(nodes))))
        failpoint.reach("dev.node.record.after")
        _raise_limits()
        for point in kernel_namespaces.MOUNT_POINTS:
            point.mkdir(parents=True, exist_ok=True)


def unregister_node(directory: Path) -> None:
    """Remove the cluster in `directory` from the record; with the last one, undo the changes."""
    # Nothing was recorded, or this user could not have done it.
    if not (_RECORD.parent.exists() or _LOCK.exists()) or os.geteuid() != 0:
        return
    with _locked():
        record = _load()
        others = (
            [node for node in _existing_nodes(record.nodes) if node != str(directory)]
            if record
            else []
        )
        if record is not None and others:
            _save(replace(record, nodes=tuple(others)))
            return
        if record is not None:
            _undo(record)
        failpoint.reach("dev.node.undo.after")
        # Also removes the draft that a process killed while writing left behind.
        shutil.rmtree(_RECORD.parent, ignore_errors=True)


def is_registered(directory: Path) -> bool:
    """Whether the cluster in `directory` is in the record."""
    record = _load()
    return record is not None and str(directory) in record.nodes


def _undo(record: MachineRecord) -> None:
    for name, value in settings_to_restore(record.settings, _read_settings()).items():
        (_SETTINGS / name).write_text(value)
    for point in record.made:
        # One that another program uses by now is not empty, so it stays.
        with contextlib.suppress(OSError):
            Path(point).rmdir()


def _raise_limits() -> None:
    for name, minimum in MINIMUM_LIMITS.items():
        # Where settings are read-only, `requirements.check_inotify` tries whether they suffice.
        with contextlib.suppress(OSError):
            if int((_SETTINGS / name).read_text()) < minimum:
                (_SETTINGS / name).write_text(str(minimum))


def _read_settings() -> dict[str, str]:
    paths = {name: _SETTINGS / name for name in (*SET_BY_KUBELET, *MINIMUM_LIMITS)}
    return {name: path.read_text().strip() for name, path in paths.items() if path.exists()}


def _missing_mount_points() -> tuple[str, ...]:
    return tuple(str(point) for point in kernel_namespaces.MOUNT_POINTS if not point.exists())


def _existing_nodes(nodes: tuple[str, ...]) -> list[str]:
    return [node for node in nodes if Path(node).is_dir()]


def _load() -> MachineRecord | None:
    try:
        return msgspec.json.decode(_RECORD.read_bytes(), type=MachineRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _save(record: MachineRecord) -> None:
    _RECORD.parent.mkdir(mode=0o755, exist_ok=True)
    files.write_atomically(_RECORD, msgspec.json.encode(record), mode=0o644)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    # Held for moments only, so waiting for it is not reported.
    with file_lock.hold(_LOCK):
        yield
