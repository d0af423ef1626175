"""When the agent sends requests, in virtual time, to a gateway that responds from a script."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from windlass.gateways.agent import gateway_client
from windlass.gateways.agent.gateway_answers import GatewayAnswer, RequestFault
from windlass.gateways.agent.gateway_client import ApiTokenFile, GatewayClient
from windlass.gateways.agent.scanner import GatewayScanner
from windlass.gateways.tree.scan_rules import ScanKind, ScanPolicy, ScanResult

OLD = GatewayAnswer(200, b'{"scanActive": false, "lastScanTimestamp": 1}')
BUSY = GatewayAnswer(200, b'{"scanActive": true, "lastScanTimestamp": 1}')
NEW = GatewayAnswer(200, b'{"scanActive": false, "lastScanTimestamp": 2}')
REFUSED = GatewayAnswer(fault=RequestFault.UNREACHABLE, detail="refused")

pytestmark = pytest.mark.looptime


class Script(GatewayClient):
    """Responds in the given order, then repeats the last response; records requests with times."""

    def __init__(self, *answers: GatewayAnswer) -> None:
        self._answers: Iterator[GatewayAnswer] = iter(answers)
        self._last = answers[-1]
        self.requests: list[tuple[str, float]] = []

    async def request(
        self, method: str, url: str, *, timeout: float, headers: Mapping[str, str] | None = None
    ) -> GatewayAnswer:
        if not url.endswith("/system/gwinfo"):
            self.requests.append((method, round(asyncio.get_running_loop().time(), 3)))
        return next(self._answers, self._last)

    @contextlib.asynccontextmanager
    async def opened(self, authority: Path | None) -> AsyncIterator[GatewayClient]:
        yield self


async def _scan(monkeypatch: pytest.MonkeyPatch, script: Script) -> ScanResult:
    async def token(self: ApiTokenFile) -> str:
        return "name:secret"

    monkeypatch.setattr(ApiTokenFile, "read", token)
    monkeypatch.setattr(gateway_client, "open_client", script.opened)
    scanner = GatewayScanner("http://127.0.0.1:8088", Path("unused"))
    return await scanner.scan([ScanKind.CONFIG], ScanPolicy())


async def test_a_request_is_tried_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two and four seconds apart; the first good response ends them."""
    script = Script(REFUSED, OLD, GatewayAnswer(500), GatewayAnswer(200), NEW)
    result = await _scan(monkeypatch, script)
    assert result.text == "config=200"
    assert script.requests == [("GET", 0), ("GET", 2), ("POST", 2), ("POST", 6), ("GET", 6)]


async def test_a_request_is_not_tried_a_fourth_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the third refused connection the gateway is unreachable."""
    script = Script(REFUSED)
    result = await _scan(monkeypatch, script)
    assert result.reason == "GatewayUnreachable"
    assert script.requests == [("GET", 0), ("GET", 2), ("GET", 6)]


async def test_the_scan_status_is_polled_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the gateway does not respond."""
    script = Script(OLD, GatewayAnswer(200), BUSY, REFUSED, GatewayAnswer(503), NEW)
    assert (await _scan(monkeypatch, script)).text == "config=200"
    assert [when for _, when in script.requests] == [0, 0, 0, 0.5, 1, 1.5]


async def test_a_scan_that_does_not_end_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """After completionTimeout it is incomplete."""
    script = Script(OLD, GatewayAnswer(200), BUSY)
    result = await _scan(monkeypatch, script)
    assert (result.reason, result.text) == ("ScanIncomplete", "config=200(incomplete)")
    assert asyncio.get_running_loop().time() == pytest.approx(60)


async def test_another_clients_scan_delays_ours_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Our POST waits for completionTimeout, no longer."""
    script = Script(BUSY)
    result = await _scan(monkeypatch, script)
    assert result.reason == "ScanIncomplete"
    post_times = [when for method, when in script.requests if method == "POST"]
    assert post_times == [pytest.approx(60)]
