"""Runs applies in child processes that may be killed; one line of JSON per child, in and out.

A process that imports only what an apply needs, and forks for every request: a child that
is killed at a failpoint costs a few milliseconds instead of an interpreter.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from pathlib import Path

from tests.support.gateways import data_directory as site
from windlass.base import failpoint
from windlass.base.errors import WindlassError
from windlass.gateways.volume import data_volume
from windlass.gateways.volume.data_directory import DataDirectory
from windlass.gateways.volume.lock import LockOwner

TREES = {"": {}, "old": site.OLD, "new": site.NEW}
REFUSED = 3


class SplitTree(DataDirectory):
    """A tree with one folder on another file system."""

    ELSEWHERE = "projects/site/view"

    def link(self, source: str, destination: str) -> None:
        self._check(source, destination)
        super().link(source, destination)

    def rename(self, source: str, destination: str) -> None:
        self._check(source, destination)
        super().rename(source, destination)

    def is_other_filesystem(self, source_folder: str, folder: str) -> bool:
        return self._is_elsewhere(source_folder) != self._is_elsewhere(folder)

    def _check(self, source: str, destination: str) -> None:
        if self._is_elsewhere(source) != self._is_elsewhere(destination):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    def _is_elsewhere(self, path: str) -> bool:
        return f"{path}/".startswith(f"{self.ELSEWHERE}/")


def main() -> None:
    """Serve requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _act(request)
        if request["act"] == "hold":
            print(child, flush=True)  # noqa: T201
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


def _act(request: dict[str, str]) -> None:
    code = 1
    try:
        _arm(request)
        code = _run(request["act"], Path(request["data"]))
    finally:
        sys.stderr.flush()
        os._exit(code)


def _arm(request: dict[str, str]) -> None:
    failpoint._armed = failpoint._parse(request.get("armed", ""))
    failpoint._visits.clear()
    failpoint._log = request.get("log") or None
    if request.get("split"):
        data_volume.DataDirectory = SplitTree  # type: ignore[misc]


def _run(act: str, data: Path) -> int:
    try:
        with site.applier(data, LockOwner("uid-1", "gateway-0", "node-a")) as applier:
            applier.start()
            if act in TREES:
                site.sync(applier, TREES[act], act)
            elif act == "rollback":
                applier.rollback()
            elif act == "hold":
                (data / "held").touch()
                signal.pause()
    except WindlassError as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    return 0


if __name__ == "__main__":
    main()
