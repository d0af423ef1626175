"""The mock gateway: its API, its modes, what it detects, and the command."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateways.mock_gateway import (
    TOKEN,
    RunningGateway,
    request,
    running_gateway,
    sample_data,
    write_resource,
)
from tests.support.git.http_server import wait_until
from tests.support.processes.polling import DEADLINE_SECONDS
from windlass_dev.mock_gateway import data_reader

SCAN = "/data/api/v1/scan/projects"
HEADERS = {"X-Ignition-API-Token": TOKEN}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small data directory."""
    return sample_data(tmp_path / "data")


@pytest.fixture
def gateway(data: Path) -> Iterator[RunningGateway]:
    """A gateway that requires the token."""
    with running_gateway(data, token=TOKEN) as running:
        yield running


def _get(gateway: RunningGateway, path: str) -> tuple[int, bytes]:
    return request("GET", gateway.url + path, headers=HEADERS)


def _status(gateway: RunningGateway, method: str = "GET", path: str = SCAN) -> int:
    return request(method, gateway.url + path, headers=HEADERS)[0]


def _scan(gateway: RunningGateway, kind: str = "projects") -> dict[str, int]:
    """Scan and wait for its end."""
    path = f"/data/api/v1/scan/{kind}"
    before = json.loads(_get(gateway, path)[1])["lastScanTimestamp"]
    accepted = json.loads(request("POST", gateway.url + path, headers=HEADERS)[1])
    assert accepted["scanActive"] is True
    seen: dict[str, int] = {}

    def done() -> bool:
        seen.update(json.loads(_get(gateway, path)[1]))
        return not seen["scanActive"] and seen["lastScanTimestamp"] > before

    wait_until(done)
    return seen


def test_loaded_follows_scans_only(gateway: RunningGateway, data: Path) -> None:
    """A start loads everything; after that a change waits for a scan of its kind."""
    code = "projects/line/ignition/script-python/util/code.py"
    config = "config/resources/core/ignition/system-properties/config.json"
    assert gateway.loaded[code] == hashlib.sha256(b"x = 1\n").hexdigest()
    (data / code).write_bytes(b"x = 2\n")
    (data / config).write_bytes(b"{}")
    assert _scan(gateway)["lastScanDuration"] >= 0
    assert gateway.loaded[code] == hashlib.sha256(b"x = 2\n").hexdigest()
    assert gateway.loaded[config] != hashlib.sha256(b"{}").hexdigest()
    _scan(gateway, "config")
    assert gateway.loaded[config] == hashlib.sha256(b"{}").hexdigest()
    assert gateway.torn == []
    assert gateway.posts == {"projects": 1, "config": 1}


def test_runtime_store_and_links_are_not_read(gateway: RunningGateway, data: Path) -> None:
    """The gateway's own store and links are not resources."""
    write_resource(data / "projects/.resources/ab", {"blob": b"1"})
    (data / "projects/line/link").symlink_to("/etc/hostname")
    assert not [path for path in gateway.rescan() if ".resources" in path or "link" in path]


def test_pages(gateway: RunningGateway) -> None:
    """The pages that windlass reads have their formats."""
    names = json.loads(_get(gateway, "/data/api/v1/projects/names")[1])
    assert names["items"] == [{"name": "line", "enabled": True}]
    assert json.loads(_get(gateway, "/data/api/v1/designers")[1])["items"] == []
    info = json.loads(_get(gateway, "/data/api/v1/gateway-info")[1])
    assert {"name", "ignitionVersion", "deploymentMode"} <= set(info)
    role = json.loads(_get(gateway, "/data/api/v1/redundancy")[1])
    assert (role["role"], role["lastSyncTimestamp"]) == ("Independent", -1)
    assert b"ContextStatus=RUNNING;" in request("GET", gateway.url + "/system/gwinfo")[1]
    assert json.loads(request("GET", gateway.url + "/StatusPing")[1]) == {"state": "RUNNING"}
    assert _get(gateway, "/data/api/v1/scan/tags")[0] == 404
    assert _get(gateway, "/data/api/v1/other")[0] == 404


def test_token(gateway: RunningGateway) -> None:
    """Without the right token the API is closed and nothing is scanned."""
    assert request("POST", gateway.url + SCAN)[0] == 401
    wrong = {"X-Ignition-API-Token": "agent:other"}
    assert request("POST", gateway.url + SCAN, headers=wrong)[0] == 401
    assert gateway.control("GET", "/scans") == {}
    assert gateway.posts == {"projects": 2}


@pytest.mark.parametrize(
    ("mode", "post", "get", "gwinfo"),
    [
        ("ok", 200, 200, 200),
        ("starting", 503, 503, 503),
        ("commissioning", 403, 403, 200),
        ("401", 401, 401, 200),
        ("403", 403, 403, 200),
        ("404", 404, 404, 200),
        ("500", 500, 500, 200),
        ("no-GET", 200, 405, 200),
        ("never-completes", 200, 200, 200),
    ],
)
def test_modes(gateway: RunningGateway, mode: str, post: int, get: int, gwinfo: int) -> None:
    """Every mode responds as its name says, and ends with the next one."""
    gateway.mode(mode)
    assert (_status(gateway, "POST"), _status(gateway)) == (post, get)
    assert _status(gateway, path="/system/gwinfo") == gwinfo
    gateway.mode("ok")
    assert _status(gateway) == 200


def test_mode_for_some_requests(gateway: RunningGateway) -> None:
    """A counted mode ends by itself and leaves other methods alone."""
    gateway.mode("500", requests=2, method="POST")
    statuses = [_status(gateway, method) for method in ("GET", "POST", "GET", "POST", "POST")]
    assert statuses == [200, 500, 200, 500, 200]
    assert gateway.control("GET", "/mode") == {"mode": "ok"}


def test_never_completes_completes_later(gateway: RunningGateway) -> None:
    """The scan stays active while the mode lasts, and ends with it."""
    gateway.mode("never-completes")
    assert json.loads(request("POST", gateway.url + SCAN, headers=HEADERS)[1])["scanActive"]
    assert json.loads(_get(gateway, SCAN)[1])["scanActive"]
    gateway.mode("ok")
    wait_until(lambda: gateway.control("GET", "/scans") == {"projects": 1})


def test_refused(gateway: RunningGateway, data: Path) -> None:
    """Nothing listens, the port stays ours, and listening again is a start."""
    gateway.mode("refused")
    gateway.mode("refused")
    with pytest.raises(ConnectionRefusedError):
        _get(gateway, SCAN)
    (data / "projects/line/project.json").write_text('{"enabled": false}')
    gateway.mode("ok")
    names = json.loads(_get(gateway, "/data/api/v1/projects/names")[1])["items"]
    assert names == [{"name": "line", "enabled": False}]


def test_stops_while_refused_and_while_scanning(data: Path) -> None:
    """No mode keeps the gateway from ending."""
    with running_gateway(data) as gateway:
        gateway.mode("never-completes")
        assert request("POST", gateway.url + SCAN)[0] == 200
        gateway.mode("refused")


def test_commissioning_rewrites_permissions(gateway: RunningGateway, data: Path) -> None:
    """Security properties are reset in every collection that has them."""
    properties = data / "config/resources/core/ignition/security-properties"
    write_resource(properties, {"config.json": b'{"ours": true}'})
    gateway.mode("commissioning")
    assert b"ours" not in (properties / "config.json").read_bytes()
    assert "lastModification" in (properties / "resource.json").read_text()
    ping = json.loads(request("GET", gateway.url + "/StatusPing")[1])
    assert ping == {"state": "RUNNING", "details": "COMMISSIONING"}


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "unheard-of"},
        {"mode": "ok", "requests": 1},
        {"mode": "500", "requests": 0},
        {"mode": "slow", "seconds": -1},
        {"mode": "ok", "typo": 1},
        {},
        [],
    ],
)
def test_bad_modes_are_refused(gateway: RunningGateway, body: object) -> None:
    """An invalid mode changes nothing."""
    status, text = request("POST", gateway.control_url + "/mode", body=body)
    assert status == 400
    assert text
    assert gateway.control("GET", "/mode") == {"mode": "ok"}


def test_torn_reads(gateway: RunningGateway, data: Path) -> None:
    """Short files, missing files and files of another generation are detected."""
    views = data / "projects/line/views"
    write_resource(views / "short", {"view.json": b'{"root": {'})
    write_resource(views / "gone", {"view.json": b"{}"})
    (views / "gone/view.json").unlink()
    digests = {"view.json": hashlib.sha256(b"{}").hexdigest()}
    write_resource(views / "mixed", {"view.json": b'{"old": 1}'}, filesSha256=digests)
    write_resource(views / "whole", {"view.json": b"{}"}, filesSha256=digests)
    (views / "mixed/odd.json").write_text("")
    gateway.rescan()
    assert sorted(gateway.torn) == [
        ("projects/line/views/gone/view.json", "missing"),
        ("projects/line/views/mixed/odd.json", "unparseable"),
        ("projects/line/views/mixed/view.json", "mismatch"),
        ("projects/line/views/short/view.json", "unparseable"),
    ]


def test_files_that_change_during_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows while it is read, and one deleted after it was listed, are reported."""
    data = sample_data(tmp_path / "data")
    folder = data / "projects/line/ignition/script-python/util"
    growing = folder / "code.py"
    genuine = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        status_read = genuine(descriptor)
        if os.path.samestat(status_read, growing.stat()):
            with growing.open("ab") as file:
                file.write(b"# more\n")
            (folder / "resource.json").unlink(missing_ok=True)
        return status_read

    monkeypatch.setattr(os, "fstat", fstat)
    torn = data_reader.read_data(data, "projects").torn
    prefix = "projects/line/ignition/script-python/util"
    assert [(entry.path, entry.problem) for entry in torn] == [
        (f"{prefix}/code.py", "changed"),
        (f"{prefix}/resource.json", "vanished"),
    ]


def test_command(data: Path, tmp_path: Path) -> None:
    """The command prints both URLs, serves TLS or not, and ends by SIGTERM."""
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    with _process("--data", str(data), "--token-file", str(token)) as gateway:
        assert _status(gateway, "POST") == 200
        wait_until(lambda: gateway.control("GET", "/scans") == {"projects": 1})
        gateway.mode("404")
        assert _status(gateway) == 404
    with _process("--data", str(data), "--tls") as gateway:
        assert gateway.url.startswith("https://")
        assert b"BEGIN CERTIFICATE" in request("GET", gateway.control_url + "/ca.pem")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["--data", "does-not-exist"], 1, "is not a directory"),
        (["--data", ".", "--token-file", "bad"], 2, "NAME:SECRET"),
        (["--data", ".", "--token-file", "absent"], 2, "No such file"),
    ],
)
def test_command_refuses(tmp_path: Path, arguments: list[str], code: int, expected: str) -> None:
    """Bad arguments are reported in one line, without a traceback and without the token."""
    (tmp_path / "bad").write_text("no-colon")
    done = subprocess.run(
        [*_COMMAND, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert "no-colon" not in done.stderr


def test_taken_port(data: Path, gateway: RunningGateway) -> None:
    """A port that is taken is named with the option that chooses another."""
    for option, url in (("--port", gateway.url), ("--control-port", gateway.control_url)):
        port = url.rpartition(":")[2]
        done = subprocess.run(
            [*_COMMAND, "--data", str(data), option, port],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1
        assert f"port {port} is already in use" in done.stderr
        assert option in done.stderr


_COMMAND = [
    sys.executable,
    "-c",
    "import sys; from windlass.cli.main import main; main()",
    "dev",
    "gateway",
]


@contextlib.contextmanager
def _process(*arguments: str) -> Iterator[RunningGateway]:
    child = subprocess.Popen(
        [*_COMMAND, *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    assert child.stdout is not None
    try:
        yield RunningGateway(child.stdout.readline().strip(), child.stdout.readline().strip())
    finally:
        child.send_signal(signal.SIGTERM)
        assert child.wait(DEADLINE_SECONDS) == 0
        child.stdout.close()
