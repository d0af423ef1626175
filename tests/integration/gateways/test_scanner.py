"""The agent's scans of a mock gateway."""

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
from windlass.gateways.agent import scanner as scanner_module
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
FAST_TIMING = ScanTiming(retry_seconds=(0.01, 0.02), poll_seconds=0.02, usual_ports=())
POLICY = ScanPolicy(request_timeout=10.0, completion_timeout=10.0)
SHORT_POLICY = dataclasses.replace(POLICY, completion_timeout=0.2)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may answer later than an agent waits for an open page."""
    monkeypatch.setattr(scanner_module, "_OPEN_PAGE_SECONDS", 60.0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a few resources."""
    return sample_data(tmp_path / "data")


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """A file with the right token."""
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def gateway(data: Path) -> Iterator[RunningGateway]:
    """A gateway without TLS that requires the token."""
    with running_gateway(data, token=TOKEN) as running:
        yield running


@pytest.fixture
def scanner(gateway: RunningGateway, token_file: Path) -> GatewayScanner:
    """The agent's scanner, with short waits."""
    return GatewayScanner(gateway.url, token_file, timing=FAST_TIMING)


def _replace(path: Path, content: str | None) -> None:
    """Replace the file atomically, as the kubelet does."""
    if content is None:
        path.unlink()
        return
    draft = path.with_name("draft")
    draft.write_text(content)
    draft.replace(path)


async def test_both_kinds_are_verified(
    gateway: RunningGateway, scanner: GatewayScanner, data: Path
) -> None:
    """Accepted, completed and verified: the gateway has loaded the files of the disk."""
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


async def test_no_kind_causes_no_request(gateway: RunningGateway, scanner: GatewayScanner) -> None:
    """Neither a POST nor a GET."""
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
async def test_each_fault_has_its_reason_and_number_of_requests(
    gateway: RunningGateway,
    scanner: GatewayScanner,
    mode: str,
    more: dict[str, object],
    posts: int,
    reason: str,
    text: str,
) -> None:
    """Kinds that were not scanned stay pending."""
    gateway.mode(mode, **more)
    policy = SHORT_POLICY if mode == "never-completes" else POLICY
    result = await scanner.scan(BOTH, policy)
    assert gateway.posts["projects"] == posts
    assert (result.reason, result.text) == (reason, text)
    assert result.pending == (BOTH if reason else frozenset())
    gateway.mode("ok")
    second = await scanner.scan(result.pending, POLICY)
    assert not second.reason
    assert not second.pending


async def test_a_failed_kind_skips_the_next_one(
    gateway: RunningGateway, scanner: GatewayScanner
) -> None:
    """In the order of the policy."""
    policy = dataclasses.replace(SHORT_POLICY, order=ScanOrder.CONFIG_PROJECTS)
    assert not (await scanner.scan([CONFIG], POLICY)).reason
    gateway.mode("never-completes")
    result = await scanner.scan(BOTH, policy)
    assert result.text == "config=200(incomplete) projects=skipped"
    gateway.mode("ok")


async def test_a_persistent_500_fails_after_three_tries(
    gateway: RunningGateway, scanner: GatewayScanner
) -> None:
    """The scan has failed, and the message has the status."""
    gateway.mode("500")
    result = await scanner.scan([CONFIG], POLICY)
    assert gateway.posts == {"config": 3}
    assert result.reason == "ScanFailed"
    assert "500" in result.message


@pytest.mark.scenario("G55")
async def test_a_rotated_token_is_used_without_a_restart(
    gateway: RunningGateway, scanner: GatewayScanner, token_file: Path
) -> None:
    """The changed file is noticed; no text contains a token."""
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
async def test_a_file_without_a_token_causes_no_request(
    gateway: RunningGateway, scanner: GatewayScanner, token_file: Path, content: str
) -> None:
    """Its content is not shown."""
    _replace(token_file, content)
    result = await scanner.scan([CONFIG], POLICY)
    assert result.reason == "ScanUnauthorized"
    assert "name:secret" in result.message
    assert gateway.control("GET", "/gets") == {}


async def test_a_missing_token_file_is_waited_for(
    gateway: RunningGateway, scanner: GatewayScanner, token_file: Path
) -> None:
    """The Secret may not be mounted yet."""
    _replace(token_file, None)
    result = await scanner.scan([CONFIG], POLICY)
    assert result.reason == "WaitingForCredential"
    assert result.pending == {CONFIG}
    assert not await scanner.has_new_token()
    _replace(token_file, TOKEN)
    assert await scanner.has_new_token()


async def test_a_gateway_without_scan_status_is_unverified(
    gateway: RunningGateway, scanner: GatewayScanner
) -> None:
    """Its response to the POST is accepted."""
    gateway.mode("no-GET")
    result = await scanner.scan([CONFIG], POLICY)
    assert result.text == "config=200(unverified)"
    assert not result.pending
    assert gateway.posts == {"config": 1}


async def test_a_scan_of_another_client_is_waited_for(
    gateway: RunningGateway, scanner: GatewayScanner
) -> None:
    """A running scan is not taken for ours."""
    gateway.mode("never-completes")
    status, _ = request(
        "POST", gateway.url + "/data/api/v1/scan/config", headers={"X-Ignition-API-Token": TOKEN}
    )
    assert status == 200
    own_scan = asyncio.create_task(scanner.scan([CONFIG], POLICY))
    await asyncio.to_thread(
        wait_until, lambda: gateway.control("GET", "/gets").get("config", 0) >= 3
    )
    assert gateway.posts == {"config": 1}
    gateway.mode("ok")
    assert (await own_scan).text == "config=200"
    assert gateway.posts == {"config": 2}
    assert gateway.control("GET", "/scans") == {"config": 2}


async def test_a_slow_response_fails_the_scan(
    gateway: RunningGateway, scanner: GatewayScanner
) -> None:
    """If it takes longer than requestTimeout."""
    gateway.mode("slow", seconds=60)
    policy = dataclasses.replace(POLICY, request_timeout=0.05)
    result = await scanner.scan([CONFIG], policy)
    assert result.reason == "ScanFailed"
    assert "requestTimeout" in result.message
    gateway.mode("ok")


async def test_failures_under_best_effort_are_warnings(
    gateway: RunningGateway, scanner: GatewayScanner
) -> None:
    """No kind stays pending, and every kind is requested."""
    gateway.mode("404")
    result = await scanner.scan(BOTH, dataclasses.replace(POLICY, mode=ScanMode.BEST_EFFORT))
    assert (result.reason, result.pending) == ("", frozenset())
    assert result.warning.startswith("ScanUnsupported: projects scan:")
    assert result.text == "projects=404 config=404"
    assert gateway.posts == {"projects": 1, "config": 1}


async def test_disabled_scans_cause_no_request(
    gateway: RunningGateway, scanner: GatewayScanner
) -> None:
    """The result is off."""
    result = await scanner.scan(BOTH, dataclasses.replace(POLICY, mode=ScanMode.OFF))
    assert (result.text, result.pending) == ("off", frozenset())
    assert gateway.posts == {}


async def test_refused_connections_are_retried_then_unreachable(
    gateway: RunningGateway, scanner: GatewayScanner
) -> None:
    """The next scan succeeds once the gateway is back."""
    gateway.mode("refused")
    result = await scanner.scan([CONFIG], POLICY)
    assert result.reason == "GatewayUnreachable"
    assert gateway.url in result.message
    assert result.text == "config: no response"
    gateway.mode("ok")
    assert (await scanner.scan([CONFIG], POLICY)).text == "config=200"


@pytest.mark.scenario("G59")
async def test_a_wrong_port_is_reported_with_the_right_one(
    gateway: RunningGateway, token_file: Path, data: Path
) -> None:
    """A gateway on another port is detected; the token is not sent there."""
    port = int(gateway.url.rpartition(":")[2])
    with running_gateway(data) as other:
        other.mode("refused")
        timing = dataclasses.replace(FAST_TIMING, usual_ports=((port, False),))
        result = await GatewayScanner(other.url, token_file, timing=timing).scan([CONFIG], POLICY)
    assert f"set spec.gateway.port to {port} and spec.gateway.tls to false" in result.message
    assert gateway.posts == {}


async def test_tls_to_a_plain_port_is_reported(gateway: RunningGateway, token_file: Path) -> None:
    """The message names spec.gateway.tls."""
    url = gateway.url.replace("http:", "https:")
    result = await GatewayScanner(url, token_file, timing=FAST_TIMING).scan([CONFIG], POLICY)
    assert result.reason == "GatewayUnreachable"
    assert "gateway.tls to false" in result.message


async def test_tls_is_verified_if_there_is_an_authority(
    tmp_path: Path, data: Path, token_file: Path
) -> None:
    """Unverified without an authority, verified with the right one, refused with another."""
    with running_gateway(data, tls=True, token=TOKEN) as gateway:
        assert gateway.url.startswith("https://")
        authority = tmp_path / "ca.pem"
        authority.write_bytes(request("GET", gateway.control_url + "/ca.pem")[1])
        for ca_file in (None, authority):
            scanner = GatewayScanner(gateway.url, token_file, ca_file=ca_file, timing=FAST_TIMING)
            assert (await scanner.scan(BOTH, POLICY)).text == "projects=200 config=200"
        with running_gateway(data, tls=True) as other:
            authority.write_bytes(request("GET", other.control_url + "/ca.pem")[1])
        result = await scanner.scan(BOTH, POLICY)
        assert result.reason == "GatewayUnreachable"
        assert "spec.gateway.caSecretRef" in result.message
        assert f"{gateway.url}: " in result.message
        assert gateway.posts == {"projects": 2, "config": 2}
        assert await scanner.state() is GatewayState.RUNNING


async def test_an_invalid_authority_is_reported(
    gateway: RunningGateway, tmp_path: Path, token_file: Path
) -> None:
    """A missing or invalid certificate is not ignored."""
    invalid = tmp_path / "ca.pem"
    for prepare in (lambda: None, lambda: invalid.write_text("not a certificate")):
        prepare()
        scanner = GatewayScanner(gateway.url, token_file, ca_file=invalid, timing=FAST_TIMING)
        result = await scanner.scan([CONFIG], POLICY)
        assert result.reason == "GatewayUnreachable"
        assert "spec.gateway.caSecretRef" in result.message
        assert f"{gateway.url}: " in result.message


async def test_every_state_of_a_gateway_is_distinguished(
    gateway: RunningGateway, scanner: GatewayScanner
) -> None:
    """Running, starting, commissioning and down."""
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
def test_only_loopback_addresses_are_allowed(url: str, tmp_path: Path) -> None:
    """A token is never sent to another machine."""
    with pytest.raises(Stalled) as caught:
        GatewayScanner(url, tmp_path / "token")
    assert "pass" not in caught.value.message
