"""Requests scans from the gateway beside the agent, and waits until they are complete.

Per kind: GET for the timestamp of the last scan, POST, then GET until the gateway is idle with a
newer one. A scan that another client started may finish before our POST: it may have read old
files, and its end must not be taken for the end of ours. The token file is read for every request.
No state is kept between calls; the result names what is still pending. How answers are judged is in
`gateway_answers`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from windlass.base import failpoint
from windlass.base.clock import Clock, SystemClock
from windlass.base.errors import WindlassError
from windlass.gateways.agent import gateway_answers, gateway_client
from windlass.gateways.agent.gateway_answers import (
    GatewayAnswer,
    GatewayState,
    PostResult,
    RequestFault,
    ScanCompletion,
)
from windlass.gateways.agent.gateway_client import ApiTokenFile, GatewayAddress, GatewayClient
from windlass.gateways.tree import scan_rules
from windlass.gateways.tree.scan_rules import (
    ScanKind,
    ScanKindResult,
    ScanPolicy,
    ScanResult,
    ScanState,
)

_TOKEN_HEADER = "X-Ignition-API-Token"  # noqa: S105 - a header's name
_OPEN_PAGE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ScanTiming:
    """Seconds before each retry of a POST, seconds between two GETs, and usual ports with TLS."""

    retry_seconds: tuple[float, ...] = (2.0, 4.0)
    poll_seconds: float = 0.5
    usual_ports: tuple[tuple[int, bool], ...] = ((8088, False), (8043, True))


class GatewayScanner:
    """Client for the scan API and the health pages of one gateway."""

    def __init__(
        self,
        base_url: str,
        token_file: Path,
        *,
        ca_file: Path | None = None,
        clock: Clock | None = None,
        timing: ScanTiming | None = None,
    ) -> None:
        self._address = GatewayAddress(base_url)
        self._token = ApiTokenFile(token_file)
        self._ca_file = ca_file
        self._clock = clock or SystemClock()
        self._timing = timing or ScanTiming()

    async def scan(self, kinds: Iterable[ScanKind], policy: ScanPolicy) -> ScanResult:
        """Scan `kinds` by the policy; faults of the gateway or the token file are in the result."""
        if policy.mode is scan_rules.ScanMode.OFF:
            return scan_rules.disabled_result()
        results: list[ScanKindResult] = []
        for kind in scan_rules.sort_scans(kinds, policy.order):
            if all(scan_rules.continues_after(result, policy.mode) for result in results):
                results.append(await self._scan_timed(kind, policy))
            else:
                results.append(scan_rules.skipped_result(kind))
        return scan_rules.combine_results(results, policy.mode)

    async def state(self) -> GatewayState:
        """The state of the gateway from its open pages; needs no token."""
        async with gateway_client.open_client(None) as client:
            gwinfo = await self._page(client, "/system/gwinfo")
            if gateway_answers.gateway_state(gwinfo) is not GatewayState.RUNNING:
                return gateway_answers.gateway_state(gwinfo)
            return gateway_answers.gateway_state(gwinfo, await self._page(client, "/StatusPing"))

    async def has_new_token(self) -> bool:
        """Whether the token file was replaced since the last request, which is worth a retry."""
        return await self._token.has_changed()

    async def _page(self, client: GatewayClient, path: str) -> GatewayAnswer:
        return await client.request("GET", self._address.url + path, timeout=_OPEN_PAGE_SECONDS)

    async def _scan_timed(self, kind: ScanKind, policy: ScanPolicy) -> ScanKindResult:
        started = self._clock.monotonic()
        try:
            async with gateway_client.open_client(self._ca_file) as client:
                result = await self._scan_kind(client, kind, policy)
        except WindlassError as error:
            result = ScanKindResult(kind, ScanState.FAILED, 0, error.reason, error.message)
        if result.reason == "GatewayUnreachable":
            result = dataclasses.replace(result, message=f"{self._address.url}: {result.message}")
        return dataclasses.replace(result, seconds=self._clock.monotonic() - started)

    async def _scan_kind(
        self, client: GatewayClient, kind: ScanKind, policy: ScanPolicy
    ) -> ScanKindResult:
        kind_scan = _KindScan(client, self._address, self._token, kind, policy, self._timing)
        result = await kind_scan.run()
        if kind_scan.unreachable:
            hint = await self._find_other_port(client)
            return dataclasses.replace(result, message=f"{result.message}{hint}")
        return result

    async def _find_other_port(self, client: GatewayClient) -> str:
        """A hint for the message: the port on which the gateway answers; gets no token."""
        configured = (self._address.port, self._address.tls)
        for port, tls in ((configured[0], not configured[1]), *self._timing.usual_ports):
            if (port, tls) == configured:
                continue
            page = self._address.url_for(port, tls=tls) + "/system/gwinfo"
            if (await client.request("GET", page, timeout=_OPEN_PAGE_SECONDS)).status:
                return gateway_answers.other_port_hint(port, tls=tls)
        return ""


class _KindScan:
    """One scan of one kind, from the first GET to the last; used once."""

    def __init__(
        self,
        client: GatewayClient,
        address: GatewayAddress,
        token: ApiTokenFile,
        kind: ScanKind,
        policy: ScanPolicy,
        timing: ScanTiming,
    ) -> None:
        self._client = client
        self._address = address
        self._token = token
        self._kind = kind
        self._policy = policy
        self._timing = timing
        # Timestamp of the last scan before the POST; None if unknown.
        self._baseline: int | None = None
        # No connection at the last try: another port may answer.
        self.unreachable = False

    async def run(self) -> ScanKindResult:
        """Request the scan and wait for its completion."""
        answer = await self._post_with_retries()
        verdict = gateway_answers.judge_post(answer, tls=self._address.tls)
        if verdict.result is not PostResult.ACCEPTED:
            self.unreachable = answer.fault is RequestFault.UNREACHABLE
            state = ScanState.FAILED
            return ScanKindResult(self._kind, state, answer.status, verdict.reason, verdict.message)
        return await self._wait_for_completion(answer.status)

    async def _post_with_retries(self) -> GatewayAnswer:
        """The answer to the first POST that needs no retry, or to the last one."""
        answer = await self._post_once()
        for wait in self._timing.retry_seconds:
            if (
                gateway_answers.judge_post(answer, tls=self._address.tls).result
                is not PostResult.AGAIN
            ):
                break
            await asyncio.sleep(wait)
            answer = await self._post_once()
        return answer

    async def _post_once(self) -> GatewayAnswer:
        # A baseline of an earlier try is kept: that try's POST may have arrived.
        if self._baseline is None:
            before = await self._wait_until_idle()
            if before.fault is not None:
                return before
            self._baseline = gateway_answers.scan_baseline(before)
        failpoint.reach("gateways.scan.before")
        answer = await self._request("POST")
        failpoint.reach("gateways.scan.after")
        return answer

    async def _wait_until_idle(self) -> GatewayAnswer:
        """The scan status before the POST; a scan that runs already gets time to end."""
        answer = await self._request("GET")
        try:
            async with asyncio.timeout(self._policy.completion_timeout):
                while gateway_answers.is_scanning(answer):
                    await asyncio.sleep(self._timing.poll_seconds)
                    answer = await self._request("GET")
        except TimeoutError:
            return answer
        return answer

    async def _wait_for_completion(self, status: int) -> ScanKindResult:
        answer = GatewayAnswer()
        try:
            async with asyncio.timeout(self._policy.completion_timeout):
                while True:
                    answer = await self._request("GET")
                    completion = gateway_answers.scan_completion(self._baseline, answer)
                    if completion is not ScanCompletion.RUNNING:
                        return ScanKindResult(self._kind, ScanState(completion.value), status)
                    await asyncio.sleep(self._timing.poll_seconds)
        except TimeoutError:
            message = gateway_answers.incomplete_message(answer, self._policy.completion_timeout)
            state = ScanState.INCOMPLETE
            return ScanKindResult(self._kind, state, status, "ScanIncomplete", message)

    async def _request(self, method: str) -> GatewayAnswer:
        return await self._client.request(
            method,
            f"{self._address.url}/data/api/v1/scan/{self._kind}",
            timeout=self._policy.request_timeout,
            headers={_TOKEN_HEADER: await self._token.read()},
        )
