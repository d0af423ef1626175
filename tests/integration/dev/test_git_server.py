"""The desk's git server with git's own backend behind it."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.support.git.http_server import running_git_server
from tests.support.processes.operator import eventually


def _backends(root: Path) -> list[str]:
    """The children that work on repositories below `root`."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"GIT_PROJECT_ROOT={root}\0".encode() in environment.read_bytes():
                found.append(environment.parent.name)
        except OSError:
            continue
    return found


def test_a_push_that_breaks_off_leaves_no_backend(tmp_path: Path) -> None:
    """A body that ends too early ends its backend, which would read on for ever."""
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
