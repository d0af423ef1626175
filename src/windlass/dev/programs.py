"""The programs that one cluster runs: those it was founded with, while they are there."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from windlass.dev import binaries, state, tools
from windlass.dev.node import containerd, runtime
from windlass.dev.node.commands import CONTAINERD, POLICIES
from windlass.dev.node.runtime import Runtime
from windlass.dev.progress import Progress
from windlass.dev.state import State


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths by name; with a node also what runs containers."""

    binaries: Mapping[str, str]
    runtime: Runtime | None

    def into(self, now: State) -> State:
        """The state of a cluster that runs these."""
        if now.node is None or self.runtime is None:
            return replace(now, binaries=self.binaries)
        path, plugins = self.runtime.path, str(self.runtime.plugins)
        node = replace(now.node, path=path, plugins=plugins)
        return replace(now, binaries=self.binaries, node=node)


def locate(directory: Path, explicit: Path | None, progress: Progress, *, node: bool) -> Programs:
    """The programs for the cluster in `directory`, which may not be there yet."""
    known = state.load(directory)
    node = node or (known is not None and known.node is not None)
    if known and explicit is None and _are_there(known):
        return _of(known)
    return search(explicit, progress, node=node)


def search(explicit: Path | None, progress: Progress, *, node: bool) -> Programs:
    """The programs for any cluster; what is nowhere is built or unpacked."""
    wanted = (*tools.TOOLS, *tools.NODE_TOOLS) if node else tools.TOOLS
    found = {name: str(path) for name, path in binaries.locate(explicit, progress, wanted).items()}
    if not node:
        return Programs(found, None)
    located = runtime.locate(progress)
    found |= {CONTAINERD: str(located.containerd), containerd.CLIENT: str(located.client)}
    found |= {POLICIES: sys.executable}
    return Programs(found, located)


def _are_there(known: State) -> bool:
    if known.node and POLICIES not in known.binaries:
        return False
    plugins = [f"{known.node.plugins}/ptp"] if known.node else []
    return all(Path(path).is_file() for path in [*known.binaries.values(), *plugins])


def _of(known: State) -> Programs:
    if known.node is None:
        return Programs(known.binaries, None)
    located = Runtime(
        containerd=Path(known.binaries[CONTAINERD]),
        client=Path(known.binaries[containerd.CLIENT]),
        plugins=Path(known.node.plugins),
        path=known.node.path,
    )
    return Programs(known.binaries, located)
