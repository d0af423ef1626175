"""The development git server with git's own backend behind it."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.support.git.http_server import running_git_server
from tests.support.processes.operator import eventually


def _backends(root: Path) -> list[str]:
    """The children that work on repositories below `root`."""
    children = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"GIT_PROJECT_ROOT={root}\0".encode() in environment.read_bytes():
                children.append(environment.parent.name)
        except OSError:
            continue
    return children


def test_an_aborted_push_leaves_no_backend(tmp_path: Path) -> None:
    """A truncated body ends its backend, which would read on forever."""
    root = tmp_path / "srv"
    with running_git_server(root) as served:
        served.create("site", {"a": "b"})
        with socket.create_connection(("127.0.0.1", served.server.port)) as client:
            client.sendall(
                b"POST /site.git/git-receive-pack HTTP/1.1\r\nhost: desk\r\n"
                b"content-type: application/x-git-receive-pack-request\r\n"
                b"content-length: 807\r\n\r\n0000"
            )
            eventually(lambda: _backends(root), "a backend")
        eventually(lambda: not _backends(root), "no backend")
