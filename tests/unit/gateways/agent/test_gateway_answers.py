"""What a gateway's responses to scan requests mean."""

from __future__ import annotations

import pytest

from windlass.gateways.agent import gateway_answers
from windlass.gateways.agent.gateway_answers import (
    GatewayAnswer,
    PostResult,
    RequestFault,
    ScanCompletion,
)

IDLE = b'{"scanActive": false, "lastScanTimestamp": 200, "lastScanDuration": 3}'
BUSY = b'{"scanActive": true, "lastScanTimestamp": 100, "lastScanDuration": 3}'


@pytest.mark.parametrize(
    ("answer", "expected", "reason"),
    [
        (GatewayAnswer(200), PostResult.ACCEPTED, ""),
        (GatewayAnswer(202), PostResult.ACCEPTED, ""),
        (GatewayAnswer(204), PostResult.ACCEPTED, ""),
        (GatewayAnswer(fault=RequestFault.UNREACHABLE), PostResult.AGAIN, "GatewayUnreachable"),
        (GatewayAnswer(fault=RequestFault.UNTRUSTED), PostResult.FAILED, "GatewayUnreachable"),
        (GatewayAnswer(fault=RequestFault.TIMEOUT), PostResult.AGAIN, "ScanFailed"),
        (GatewayAnswer(500), PostResult.AGAIN, "ScanFailed"),
        (GatewayAnswer(503), PostResult.AGAIN, "ScanFailed"),
        (GatewayAnswer(401), PostResult.FAILED, "ScanUnauthorized"),
        (GatewayAnswer(403), PostResult.FAILED, "ScanUnauthorized"),
        (GatewayAnswer(404), PostResult.FAILED, "ScanUnsupported"),
        (GatewayAnswer(302), PostResult.FAILED, "ScanFailed"),
        (GatewayAnswer(400), PostResult.FAILED, "ScanFailed"),
        (GatewayAnswer(405), PostResult.FAILED, "ScanFailed"),
    ],
)
def test_each_response_to_a_post_has_one_result(
    answer: GatewayAnswer, expected: PostResult, reason: str
) -> None:
    """Each response to the POST leads to exactly one result and reason."""
    verdict = gateway_answers.judge_post(answer, tls=True)
    assert (verdict.result, verdict.reason) == (expected, reason)
    assert bool(verdict.message) == bool(reason)


def test_a_401_names_both_causes() -> None:
    """Without TLS a token that requires a secure channel is a second cause; with TLS it is not."""
    assert "secure channel" in gateway_answers.judge_post(GatewayAnswer(401), tls=False).message
    message = gateway_answers.judge_post(GatewayAnswer(401), tls=True).message
    assert "secure channel" not in message
    assert "does not accept the API token" in message


def test_messages_name_the_fix() -> None:
    """A message says which field to change."""
    assert "commissioning" in gateway_answers.judge_post(GatewayAnswer(403), tls=True).message
    unsupported = gateway_answers.judge_post(GatewayAnswer(404), tls=True).message
    assert "Off" in unsupported
    assert "BestEffort" in unsupported
    redirect = gateway_answers.judge_post(
        GatewayAnswer(302, detail="https://127.0.0.1:8043/"), tls=False
    )
    assert "https://127.0.0.1:8043/" in redirect.message
    hint = gateway_answers.other_port_hint(8088, tls=False)
    assert "spec.gateway.port to 8088 and spec.gateway.tls to false" in hint


@pytest.mark.parametrize(
    ("answer", "baseline"),
    [
        (GatewayAnswer(200, BUSY), 100),
        (GatewayAnswer(200, b'{"scanning": false, "lastScanTimestamp": 7}'), 7),
        (GatewayAnswer(200, b'{"scanActive": false, "lastScanTimestamp": null}'), 0),
        (GatewayAnswer(200, b'{"scanActive": false}'), 0),
        (GatewayAnswer(200, b"{}"), None),
        (GatewayAnswer(200, b"accepted"), None),
        (GatewayAnswer(200, b"[1]"), None),
        (GatewayAnswer(200, b'{"scanActive": "no", "lastScanTimestamp": true}'), None),
        (GatewayAnswer(404), None),
        (GatewayAnswer(405), None),
        (GatewayAnswer(403), None),
        (GatewayAnswer(500, BUSY), None),
        (GatewayAnswer(fault=RequestFault.TIMEOUT), None),
    ],
)
def test_the_baseline_is_the_last_scan(answer: GatewayAnswer, baseline: int | None) -> None:
    """A gateway that never scanned has a baseline; one without a scan status has none."""
    assert gateway_answers.scan_baseline(answer) == baseline


@pytest.mark.parametrize(
    ("baseline", "answer", "expected"),
    [
        (100, GatewayAnswer(200, IDLE), ScanCompletion.VERIFIED),
        (200, GatewayAnswer(200, IDLE), ScanCompletion.RUNNING),
        (100, GatewayAnswer(200, BUSY), ScanCompletion.RUNNING),
        (None, GatewayAnswer(200, BUSY), ScanCompletion.RUNNING),
        (None, GatewayAnswer(200, IDLE), ScanCompletion.UNVERIFIED),
        (100, GatewayAnswer(200, b'{"scanning": true}'), ScanCompletion.RUNNING),
        (100, GatewayAnswer(200, b'{"scanning": false}'), ScanCompletion.UNVERIFIED),
        (100, GatewayAnswer(200, b'{"lastScanTimestamp": 300}'), ScanCompletion.UNVERIFIED),
        (100, GatewayAnswer(200, b""), ScanCompletion.UNVERIFIED),
        (100, GatewayAnswer(404), ScanCompletion.UNVERIFIED),
        (100, GatewayAnswer(405), ScanCompletion.UNVERIFIED),
        (100, GatewayAnswer(403), ScanCompletion.UNVERIFIED),
        (100, GatewayAnswer(503), ScanCompletion.RUNNING),
        (100, GatewayAnswer(fault=RequestFault.UNREACHABLE), ScanCompletion.RUNNING),
    ],
)
def test_a_scan_is_complete_when_the_gateway_is_idle_with_a_newer_timestamp(
    baseline: int | None, answer: GatewayAnswer, expected: ScanCompletion
) -> None:
    """A gateway without a scan status is unverified; one that does not respond is still running."""
    assert gateway_answers.scan_completion(baseline, answer) is expected


def test_an_incomplete_scan_reports_the_last_response() -> None:
    """A gateway that stopped responding is distinguished from one that still scans."""
    assert "completionTimeout" in gateway_answers.incomplete_message(GatewayAnswer(200, BUSY), 60)
    assert "answered 503" in gateway_answers.incomplete_message(GatewayAnswer(503), 60)
    message = gateway_answers.incomplete_message(GatewayAnswer(fault=RequestFault.UNREACHABLE), 60)
    assert "stopped responding" in message
