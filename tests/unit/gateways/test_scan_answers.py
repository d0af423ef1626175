"""What a gateway's answers to scan requests mean."""

from __future__ import annotations

import pytest

from windlass.gateways.decide import scan_answers
from windlass.gateways.decide.scan_answers import Answer, Completion, Fault, Step

IDLE = b'{"scanActive": false, "lastScanTimestamp": 200, "lastScanDuration": 3}'
BUSY = b'{"scanActive": true, "lastScanTimestamp": 100, "lastScanDuration": 3}'


@pytest.mark.parametrize(
    ("answer", "step", "reason"),
    [
        (Answer(200), Step.ACCEPTED, ""),
        (Answer(202), Step.ACCEPTED, ""),
        (Answer(204), Step.ACCEPTED, ""),
        (Answer(fault=Fault.UNREACHABLE), Step.AGAIN, "GatewayUnreachable"),
        (Answer(fault=Fault.UNTRUSTED), Step.FAILED, "GatewayUnreachable"),
        (Answer(fault=Fault.TIMEOUT), Step.AGAIN, "ScanFailed"),
        (Answer(500), Step.AGAIN, "ScanFailed"),
        (Answer(503), Step.AGAIN, "ScanFailed"),
        (Answer(401), Step.FAILED, "ScanUnauthorized"),
        (Answer(403), Step.FAILED, "ScanUnauthorized"),
        (Answer(404), Step.FAILED, "ScanUnsupported"),
        (Answer(302), Step.FAILED, "ScanFailed"),
        (Answer(400), Step.FAILED, "ScanFailed"),
        (Answer(405), Step.FAILED, "ScanFailed"),
    ],
)
def test_post(answer: Answer, step: Step, reason: str) -> None:
    """Each answer to the POST leads to exactly one step and reason."""
    verdict = scan_answers.judged(answer, tls=True)
    assert (verdict.step, verdict.reason) == (step, reason)
    assert bool(verdict.message) == bool(reason)


def test_401_names_both_causes() -> None:
    """Without TLS a token that demands a secure channel is a second cause, with TLS it is not."""
    assert "secure channel" in scan_answers.judged(Answer(401), tls=False).message
    message = scan_answers.judged(Answer(401), tls=True).message
    assert "secure channel" not in message
    assert "does not know the API token" in message


def test_messages_name_the_fix() -> None:
    """A person reads what to change."""
    assert "commissioning" in scan_answers.judged(Answer(403), tls=True).message
    unsupported = scan_answers.judged(Answer(404), tls=True).message
    assert "Off" in unsupported
    assert "BestEffort" in unsupported
    redirect = scan_answers.judged(Answer(302, detail="https://127.0.0.1:8043/"), tls=False)
    assert "https://127.0.0.1:8043/" in redirect.message
    hint = scan_answers.elsewhere(8088, tls=False)
    assert "gateway.port to 8088 and gateway.tls to false" in hint


@pytest.mark.parametrize(
    ("answer", "before"),
    [
        (Answer(200, BUSY), 100),
        (Answer(200, b'{"scanning": false, "lastScanTimestamp": 7}'), 7),
        (Answer(200, b'{"scanActive": false, "lastScanTimestamp": null}'), 0),
        (Answer(200, b'{"scanActive": false}'), 0),
        (Answer(200, b"{}"), None),
        (Answer(200, b"accepted"), None),
        (Answer(200, b"[1]"), None),
        (Answer(200, b'{"scanActive": "no", "lastScanTimestamp": true}'), None),
        (Answer(404), None),
        (Answer(405), None),
        (Answer(403), None),
        (Answer(500, BUSY), None),
        (Answer(fault=Fault.TIMEOUT), None),
    ],
)
def test_baseline(answer: Answer, before: int | None) -> None:
    """A gateway that never scanned has a baseline; one that does not tell has none."""
    assert scan_answers.baseline(answer) == before


@pytest.mark.parametrize(
    ("before", "answer", "expected"),
    [
        (100, Answer(200, IDLE), Completion.VERIFIED),
        (200, Answer(200, IDLE), Completion.RUNNING),
        (100, Answer(200, BUSY), Completion.RUNNING),
        (None, Answer(200, BUSY), Completion.RUNNING),
        (None, Answer(200, IDLE), Completion.UNVERIFIED),
        (100, Answer(200, b'{"scanning": true}'), Completion.RUNNING),
        (100, Answer(200, b'{"scanning": false}'), Completion.UNVERIFIED),
        (100, Answer(200, b'{"lastScanTimestamp": 300}'), Completion.UNVERIFIED),
        (100, Answer(200, b""), Completion.UNVERIFIED),
        (100, Answer(404), Completion.UNVERIFIED),
        (100, Answer(405), Completion.UNVERIFIED),
        (100, Answer(403), Completion.UNVERIFIED),
        (100, Answer(503), Completion.RUNNING),
        (100, Answer(fault=Fault.UNREACHABLE), Completion.RUNNING),
    ],
)
def test_completion(before: int | None, answer: Answer, expected: Completion) -> None:
    """Done needs an idle gateway with a newer timestamp; silence needs patience."""
    assert scan_answers.completion(before, answer) is expected


def test_incomplete_says_what_was_seen_last() -> None:
    """A gateway that went away is told apart from one that still scans."""
    assert "completionTimeout" in scan_answers.incomplete(Answer(200, BUSY), 60)
    assert "answered 503" in scan_answers.incomplete(Answer(503), 60)
    gone = scan_answers.incomplete(Answer(fault=Fault.UNREACHABLE), 60)
    assert "did not answer any more" in gone
