"""A mock Ignition gateway for tests: runs in its own thread, inspected through its control port."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.processes.operator import free_port
from tests.support.processes.polling import DEADLINE_SECONDS
from tests.support.processes.server_loop import server_loop
from windlass_dev.mock_gateway.gateway_server import MockGatewayServer, MockGatewaySettings

TOKEN = "agent:s3cret-of-the-agent"


@dataclass(frozen=True)
class RunningGateway:
    """A running gateway, in this process or another one."""

    url: str
    control_url: str

    def mode(self, mode: str, **more: object) -> None:
        """Set how the gateway behaves from now on."""
        self.control("POST", "/mode", {"mode": mode, **more})

    @property
    def posts(self) -> dict[str, int]:
        """Scan requests by kind."""
        posts: dict[str, int] = self.control("GET", "/posts")
        return posts

    @property
    def loaded(self) -> dict[str, str]:
        """Digests of what the gateway has loaded, by path."""
        loaded: dict[str, str] = self.control("GET", "/loaded")
        return loaded

    @property
    def torn(self) -> list[tuple[str, str]]:
        """Path and problem of every torn read."""
        return [(entry["path"], entry["problem"]) for entry in self.control("GET", "/torn")]

    def rescan(self) -> dict[str, str]:
        """Make the gateway read its files now; returns what it loaded."""
        loaded: dict[str, str] = self.control("POST", "/rescan")
        return loaded

    def control(self, method: str, path: str, body: object = None) -> Any:
        status, response = request(method, self.control_url + path, body=body)
        assert status == 200, response
        return json.loads(response)


def request(
    method: str, url: str, *, body: object = None, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and body of one plain request."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=DEADLINE_SECONDS)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, parts.path, content, dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@contextlib.contextmanager
def running_gateway(data: Path, **settings: Any) -> Iterator[RunningGateway]:
    """A gateway over `data` in its own thread, so that tests may block.

    Its port is reserved: in mode `refused` nothing is bound to it until the server has ended, and
    one that the kernel chose could go to another process's connection meanwhile.
    """
    settings.setdefault("port", free_port())
    server = MockGatewayServer(MockGatewaySettings(data, **settings))
    with server_loop() as running:
        running.run(server.start())
        try:
            yield RunningGateway(server.url, server.control_url)
        finally:
            running.run(server.stop())


def write_resource(directory: Path, files: Mapping[str, bytes], **attributes: object) -> None:
    """An Ignition resource: its files, and the resource.json that lists them."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    resource = {"scope": "G", "version": 1, "files": sorted(files), "attributes": attributes}
    (directory / "resource.json").write_text(json.dumps(resource))


def sample_data(data: Path) -> Path:
    """A data directory with one project and one configuration resource."""
    project = data / "projects" / "line"
    write_resource(project / "ignition" / "script-python" / "util", {"code.py": b"x = 1\n"})
    (project / "project.json").write_text('{"title": "Line", "enabled": true}')
    write_resource(
        data / "config/resources/core/ignition/system-properties",
        {"config.json": b'{"systemName": "line-1"}'},
    )
    return data
