"""Whether a gateway is up, from its open pages."""

from __future__ import annotations

import pytest

from windlass.gateways.decide import gateway_state
from windlass.gateways.decide.gateway_state import GatewayState
from windlass.gateways.decide.scan_answers import Answer, Fault

RUNNING = Answer(200, b"ContextStatus=RUNNING;RedundantState=Good;\n")


@pytest.mark.parametrize(
    ("gwinfo", "ping", "expected"),
    [
        (Answer(fault=Fault.UNREACHABLE), None, GatewayState.DOWN),
        (Answer(fault=Fault.TIMEOUT), None, GatewayState.DOWN),
        (Answer(503, b"starting"), None, GatewayState.STARTING),
        (Answer(200, b"ContextStatus=STARTING;"), None, GatewayState.STARTING),
        (Answer(200, b"\xff\xfe"), None, GatewayState.STARTING),
        (Answer(503, b"ContextStatus=RUNNING;"), None, GatewayState.STARTING),
        (Answer(200, b"ContextStatus=NEEDS_COMMISSIONING;"), None, GatewayState.COMMISSIONING),
        (RUNNING, Answer(200, b'{"state":"RUNNING"}'), GatewayState.RUNNING),
        (
            RUNNING,
            Answer(200, b'{"state":"RUNNING","details":"COMMISSIONING"}'),
            GatewayState.COMMISSIONING,
        ),
        (RUNNING, Answer(404), GatewayState.RUNNING),
        (RUNNING, None, GatewayState.RUNNING),
    ],
)
def test_state(gwinfo: Answer, ping: Answer | None, expected: GatewayState) -> None:
    """Up means running without a word of commissioning."""
    assert gateway_state.state(gwinfo, ping) is expected


def test_fields() -> None:
    """Pairs are read, rubbish between them is not."""
    line = b"ContextStatus=RUNNING; RedundancyStatus = Master ;odd;a=b=c;"
    expected = {"ContextStatus": "RUNNING", "RedundancyStatus": "Master", "a": "b=c"}
    assert gateway_state.fields(line) == expected
