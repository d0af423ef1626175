"""The agent's scans against the mock gateway."""

from __future__ import annotations

import asyncio
import dataclasses
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
from windlass.base import redaction
from windlass.base.errors import Stalled
from windlass.gateways.agent.gateway_answers import GatewayState
from windlass.gateways.agent.scanner import GatewayScanner, ScanTiming
from windlass.gateways.tree.scan_rules import (
    ScanKind,
    ScanMode,
    ScanOrder,
    ScanPolicy,
    ScanResult,
    ScanState,
)

BOTH = frozenset(ScanKind)
PROJECTS, CONFIG = ScanKind.PROJECTS, ScanKind.CONFIG
QUICK = ScanTiming(retry_seconds=(0.01, 0.02), poll_seconds=0.02, usual_ports=())
POLICY = ScanPolicy(request_timeout=10.0, completion_timeout=10.0)
IMPATIENT = dataclasses.replace(POLICY, completion_timeout=0.2)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small data directory."""
    return sample_data(tmp_path / "data")


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """The file with the right token."""
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def gateway(data: Path) -> Iterator[RunningGateway]:
    """A plain gateway that wants the token."""
    with running_gateway(data, token=TOKEN) as running:
        yield running


@pytest.fixture
def scanner(gateway: RunningGateway, token_file: Path) -> GatewayScanner:
    """The agent's client, with short waits."""
    return GatewayScanner(gateway.url, token_file, timing=QUICK)


def _replace(path: Path, content: str | None) -> None:
    """Swap the file as the kubelet does: the old one stays whole until the new one is there."""
    if content is None:
        path.unlink()
        return
    draft = path.with_name("draft")
    draft.write_text(content)
    draft.replace(path)


async def test_both_kinds_are_verified(
    gateway: RunningGateway, scanner: GatewayScanner, data: Path
) -> None:
    """Accepted, waited for and proven: the gateway has what lies on the disk."""
    write_resource(data / "projects/line/views/start", {"view.json": b"{}"})
    before = gateway.loaded
    result = await scanner.scan(BOTH, POLICY)
    assert result.text == "projects=200 config=200"
    assert [kind.state for kind in result.kinds] == [ScanState.VERIFIED] * 2
    assert (result.reason, result.pending) == ("", frozenset())
    assert set(gateway.loaded) - set(before) == {
        "projects/line/views/start/view.json",
        "projects/line/views/start/resource.json",
    }
    assert gateway.posts == {"projects": 1, "config": 1}
    assert all(kind.seconds > 0 for kind in result.kinds)


async def test_nothing_wanted_asks_nothing(
    gateway: RunningGateway, scanner: GatewayScanner
) -> None:
    """No kind, no request."""
    assert await scanner.scan([], POLICY) == ScanResult()
    assert gateway.posts == {}
    assert gateway.control("GET", "/gets") == {}


@pytest.mark.scenario("G54")
@pytest.mark.parametrize(
    ("mode", "more", "posts", "reason", "text"),
    [
        ("401", {}, 1, "ScanUnauthorized", "projects=401 config=skipped"),
        ("403", {}, 1, "ScanUnauthorized", "projects=403 config=skipped"),
        ("404", {}, 1, "ScanUnsupported", "projects=404 config=skipped"),
        ("500", {"requests": 1, "method": "POST"}, 2, "", "projects=200 config=200"),
        ("never-completes", {}, 1, "ScanIncomplete", "projects=200(incomplete) config=skipped"),
    ],
)
async def test_faults(
    gateway: RunningGateway,
    scanner: GatewayScanner,
    mode: str,
    more: dict[str, object],
    posts: int,
    reason: str,
    text: str,
) -> None:
    """Each fault has its reason and its number of requests; what is not done stays owed."""
    gateway.mode(mode, **more)
    policy = IMPATIENT if mode == "never-completes" else POLICY
    result = await scanner.scan(BOTH, policy)
    assert gateway.posts["projects"] == posts
    assert (result.reason, result.text) == (reason, text)
    assert result.pending == (BOTH if reason else frozenset())
    gateway.mode("ok")
    again = await scanner.scan(result.pending, POLICY)
    assert not again.reason
    assert not again.pending


async def test_second_kind_fails(gateway: RunningGateway, scanner: GatewayScanner) -> None:
    """The kind that was done is not owed any more; the order is the policy's."""
    policy = dataclasses.replace(IMPATIENT, order=ScanOrder.CONFIG_PROJECTS)
    assert not (await scanner.scan([CONFIG], policy)).reason
    gateway.mode("never-completes")
    result = await scanner.scan(BOTH, policy)
    assert result.text == "config=200(incomplete) projects=skipped"
    gateway.mode("ok")


async def test_500_that_stays(gateway: RunningGateway, scanner: GatewayScanner) -> None:
    """Three tries, then the scan has failed."""
    gateway.mode("500")
    result = await scanner.scan([CONFIG], POLICY)
    assert gateway.posts == {"config": 3}
    assert result.reason == "ScanFailed"
    assert "500" in result.message


@pytest.mark.scenario("G55")
async def test_rotated_token(
    gateway: RunningGateway, scanner: GatewayScanner, token_file: Path
) -> None:
    """A corrected token file is noticed and used without a restart; no text shows a token."""
    _replace(token_file, "agent:an-older-secret")
    refused = await scanner.scan(BOTH, POLICY)
    assert refused.reason == "ScanUnauthorized"
    assert refused.retry_seconds == 300
    assert not await scanner.has_new_token()
    _replace(token_file, TOKEN)
    assert await scanner.has_new_token()
    assert (await scanner.scan(refused.pending, POLICY)).text == "projects=200 config=200"
    assert not await scanner.has_new_token()
    cleaned = redaction.process.clean(f"{TOKEN} agent:an-older-secret")
    assert TOKEN.partition(":")[2] not in cleaned
    assert "an-older-secret" in cleaned


@pytest.mark.parametrize(
    "content", ["", "no-colon", ":", "a:", ":b", "a:b\nc:d", "ä:b", "x:" * 3000]
)
async def test_token_file_without_token(
    gateway: RunningGateway, scanner: GatewayScanner, token_file: Path, content: str
) -> None:
    """A file that holds no token makes no request, and its content is not repeated."""
    _replace(token_file, content)
    result = await scanner.scan([CONFIG], POLICY)
    assert result.reason == "ScanUnauthorized"
    assert "name:secret" in result.message
    assert gateway.control("GET", "/gets") == {}


async def test_no_token_file(
    gateway: RunningGateway, scanner: GatewayScanner, token_file: Path
) -> None:
    """A Secret that is not there yet is waited for."""
    _replace(token_file, None)
    result = await scanner.scan([CONFIG], POLICY)
    assert result.reason == "WaitingForCredential"
    assert result.pending == {CONFIG}
    assert not await scanner.has_new_token()
    _replace(token_file, TOKEN)
    assert await scanner.has_new_token()


async def test_without_status(gateway: RunningGateway, scanner: GatewayScanner) -> None:
    """A gateway that does not tell its scan status is believed, and marked so."""
    gateway.mode("no-GET")
    result = await scanner.scan([CONFIG], POLICY)
    assert result.text == "config=200(unverified)"
    assert not result.pending
    assert gateway.posts == {"config": 1}


async def test_foreign_scan_is_let_finish(gateway: RunningGateway, scanner: GatewayScanner) -> None:
    """A scan that runs already is not taken for ours."""
    gateway.mode("never-completes")
    status, _ = request(
        "POST", gateway.url + "/data/api/v1/scan/config", headers={"X-Ignition-API-Token": TOKEN}
    )
    assert status == 200
    ours = asyncio.create_task(scanner.scan([CONFIG], POLICY))
    await asyncio.to_thread(
        wait_until, lambda: gateway.control("GET", "/gets").get("config", 0) >= 3
    )
    assert gateway.posts == {"config": 1}
    gateway.mode("ok")
    assert (await ours).text == "config=200"
    assert gateway.posts == {"config": 2}
    assert gateway.control("GET", "/scans") == {"config": 2}


async def test_slow_answers(gateway: RunningGateway, scanner: GatewayScanner) -> None:
    """A gateway slower than requestTimeout has failed; the kind stays owed."""
    gateway.mode("slow", seconds=60)
    policy = dataclasses.replace(POLICY, request_timeout=0.05)
    result = await scanner.scan([CONFIG], policy)
    assert result.reason == "ScanFailed"
    assert "requestTimeout" in result.message
    gateway.mode("ok")


async def test_best_effort(gateway: RunningGateway, scanner: GatewayScanner) -> None:
    """Failures warn, nothing is owed, and every kind is asked for."""
    gateway.mode("404")
    result = await scanner.scan(BOTH, dataclasses.replace(POLICY, mode=ScanMode.BEST_EFFORT))
    assert (result.reason, result.pending) == ("", frozenset())
    assert result.warning.startswith("ScanUnsupported: projects scan:")
    assert result.text == "projects=404 config=404"
    assert gateway.posts == {"projects": 1, "config": 1}


async def test_off(gateway: RunningGateway, scanner: GatewayScanner) -> None:
    """Off makes no request at all."""
    result = await scanner.scan(BOTH, dataclasses.replace(POLICY, mode=ScanMode.OFF))
    assert (result.text, result.pending) == ("off", frozenset())
    assert gateway.posts == {}


async def test_gateway_that_comes_back(gateway: RunningGateway, scanner: GatewayScanner) -> None:
    """Refused connections are tried again, then told as unreachable."""
    gateway.mode("refused")
    result = await scanner.scan([CONFIG], POLICY)
    assert result.reason == "GatewayUnreachable"
    assert gateway.url in result.message
    assert result.text == "config=unanswered"
    gateway.mode("ok")
    assert (await scanner.scan([CONFIG], POLICY)).text == "config=200"


@pytest.mark.scenario("G59")
async def test_wrong_port_is_named(gateway: RunningGateway, token_file: Path, data: Path) -> None:
    """A gateway that answers on another port is found; the token does not go there."""
    port = int(gateway.url.rpartition(":")[2])
    with running_gateway(data) as other:
        other.mode("refused")
        pace = dataclasses.replace(QUICK, usual_ports=((port, False),))
        result = await GatewayScanner(other.url, token_file, timing=pace).scan([CONFIG], POLICY)
    assert f"set gateway.port to {port} and gateway.tls to false" in result.message
    assert gateway.posts == {}


async def test_wrong_tls_is_named(gateway: RunningGateway, token_file: Path) -> None:
    """TLS spoken to a plain port is recognised as that."""
    url = gateway.url.replace("http:", "https:")
    result = await GatewayScanner(url, token_file, timing=QUICK).scan([CONFIG], POLICY)
    assert result.reason == "GatewayUnreachable"
    assert "gateway.tls to false" in result.message


async def test_tls(tmp_path: Path, data: Path, token_file: Path) -> None:
    """Over TLS: unverified without an authority, verified with the right one, refused else."""
    with running_gateway(data, tls=True, token=TOKEN) as gateway:
        assert gateway.url.startswith("https://")
        authority = tmp_path / "ca.pem"
        authority.write_bytes(request("GET", gateway.control_url + "/ca.pem")[1])
        for ca_file in (None, authority):
            scanner = GatewayScanner(gateway.url, token_file, ca_file=ca_file, timing=QUICK)
            assert (await scanner.scan(BOTH, POLICY)).text == "projects=200 config=200"
        with running_gateway(data, tls=True) as stranger:
            authority.write_bytes(request("GET", stranger.control_url + "/ca.pem")[1])
        result = await scanner.scan(BOTH, POLICY)
        assert result.reason == "GatewayUnreachable"
        assert "gateway.caSecretRef" in result.message
        assert gateway.posts == {"projects": 2, "config": 2}
        assert await scanner.state() is GatewayState.RUNNING


async def test_unusable_authority(
    gateway: RunningGateway, tmp_path: Path, token_file: Path
) -> None:
    """An authority that is no certificate is told, not ignored."""
    broken = tmp_path / "ca.pem"
    for prepare in (lambda: None, lambda: broken.write_text("not a certificate")):
        prepare()
        scanner = GatewayScanner(gateway.url, token_file, ca_file=broken, timing=QUICK)
        result = await scanner.scan([CONFIG], POLICY)
        assert result.reason == "GatewayUnreachable"
        assert "gateway.caSecretRef" in result.message


async def test_state(gateway: RunningGateway, scanner: GatewayScanner) -> None:
    """Every phase of a gateway's life is told apart."""
    for mode, expected in (
        ("ok", GatewayState.RUNNING),
        ("401", GatewayState.RUNNING),
        ("starting", GatewayState.STARTING),
        ("commissioning", GatewayState.COMMISSIONING),
        ("refused", GatewayState.DOWN),
        ("ok", GatewayState.RUNNING),
    ):
        gateway.mode(mode)
        assert await scanner.state() is expected


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.1:8088",
        "http://gateway.example.org:8088",
        "ftp://127.0.0.1",
        "http://user:pass@127.0.0.1:8088",
        "http://127.0.0.1:8088/elsewhere",
        "http://[::1",
        "127.0.0.1:8088",
        "http://127.0.0.1:65536",
        "http://127.0.0.1:0",
    ],
)
def test_only_loopback(url: str, tmp_path: Path) -> None:
    """A token goes to this machine or nowhere."""
    with pytest.raises(Stalled) as caught:
        GatewayScanner(url, tmp_path / "token")
    assert "pass" not in caught.value.message
