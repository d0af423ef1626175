"""Settings that nodes change on the machine outside of any namespace, and their undo.

The kubelet sets kernel settings, a few clusters outgrow a limit, and the mount points
they need may not be there. The values before the first node are recorded in
/run, which is lost at a reboot like the kernel's settings. The last node that leaves
undoes the changes: while another node is there, its mount points and settings stay. A
setting that was changed since by another program is left alone.
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
"""Limits that all clusters of a user share; a cluster with a node takes 17 of this one."""

_SETTINGS = Path("/proc/sys")
_RECORD = Path("/run/windlass/nodes.json")
_LOCK = Path("/run/windlass.lock")


@dataclass(frozen=True, slots=True)
class MachineRecord:
    """What was found before the first node, what was made for it, and who is there."""

    settings: Mapping[str, str]
    made: tuple[str, ...]
    nodes: tuple[str, ...]


def settings_to_restore(found: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The settings that were changed for a node and that nobody touched since."""
    ours = {**SET_BY_KUBELET, **{name: str(least) for name, least in MINIMUM_LIMITS.items()}}
    return {
        name: value
        for name, value in found.items()
        if name in now and now[name] == ours.get(name) and value != now[name]
    }


def register_node(directory: Path) -> None:
    """Write down what is found, make what is missing, for the cluster in `directory`."""
    with _locked():
        record = _load() or MachineRecord({}, _missing_mount_points(), ())
        nodes = {*_existing_nodes(record.nodes), str(directory)}
        # Another version, which knew fewer settings, may have begun the record.
        settings = {**_read_settings(), **record.settings}
        _save(replace(record, settings=settings, nodes=tuple(sorted(nodes))))
        failpoint.reach("dev.node.record.after")
        _raise_limits()
        for point in kernel_namespaces.MOUNT_POINTS:
            point.mkdir(parents=True, exist_ok=True)


def unregister_node(directory: Path) -> None:
    """Forget the cluster in `directory`; the last one to go undoes what was done."""
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
        # Whoever was killed while writing left a draft in there.
        shutil.rmtree(_RECORD.parent, ignore_errors=True)


def is_registered(directory: Path) -> bool:
    """Whether the cluster in `directory` has entered and not left."""
    record = _load()
    return record is not None and str(directory) in record.nodes


def _undo(record: MachineRecord) -> None:
    for name, value in settings_to_restore(record.settings, _read_settings()).items():
        (_SETTINGS / name).write_text(value)
    for point in record.made:
        # One that somebody else has begun to use is not empty, so it stays.
        with contextlib.suppress(OSError):
            Path(point).rmdir()


def _raise_limits() -> None:
    for name, least in MINIMUM_LIMITS.items():
        # Where settings cannot be written, what there is has to do; `watches` finds out.
        with contextlib.suppress(OSError):
            if int((_SETTINGS / name).read_text()) < least:
                (_SETTINGS / name).write_text(str(least))


def _read_settings() -> dict[str, str]:
    found = {name: _SETTINGS / name for name in (*SET_BY_KUBELET, *MINIMUM_LIMITS)}
    return {name: path.read_text().strip() for name, path in found.items() if path.exists()}


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
    # Held for moments only, so nobody needs to be told who has it.
    with file_lock.hold(_LOCK, on_wait=lambda holder: None):
        yield
