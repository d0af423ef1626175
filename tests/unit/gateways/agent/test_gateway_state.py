"""Whether a gateway is up, from its open pages."""

from __future__ import annotations

import pytest

from windlass.gateways.agent import gateway_answers
from windlass.gateways.agent.gateway_answers import GatewayAnswer, GatewayState, RequestFault

RUNNING = GatewayAnswer(200, b"ContextStatus=RUNNING;RedundantState=Good;\n")


@pytest.mark.parametrize(
    ("gwinfo", "ping", "expected"),
    [
        (GatewayAnswer(fault=RequestFault.UNREACHABLE), None, GatewayState.DOWN),
        (GatewayAnswer(fault=RequestFault.TIMEOUT), None, GatewayState.DOWN),
        (GatewayAnswer(503, b"starting"), None, GatewayState.STARTING),
        (GatewayAnswer(200, b"ContextStatus=STARTING;"), None, GatewayState.STARTING),
        (GatewayAnswer(200, b"\xff\xfe"), None, GatewayState.STARTING),
        (GatewayAnswer(503, b"ContextStatus=RUNNING;"), None, GatewayState.STARTING),
        (
            GatewayAnswer(200, b"ContextStatus=NEEDS_COMMISSIONING;"),
            None,
            GatewayState.COMMISSIONING,
        ),
        (RUNNING, GatewayAnswer(200, b'{"state":"RUNNING"}'), GatewayState.RUNNING),
        (
            RUNNING,
            GatewayAnswer(200, b'{"state":"RUNNING","details":"COMMISSIONING"}'),
            GatewayState.COMMISSIONING,
        ),
        (RUNNING, GatewayAnswer(404), GatewayState.RUNNING),
        (RUNNING, None, GatewayState.RUNNING),
    ],
)
def test_state(gwinfo: GatewayAnswer, ping: GatewayAnswer | None, expected: GatewayState) -> None:
    """Up means running without a word of commissioning."""
    assert gateway_answers.gateway_state(gwinfo, ping) is expected


def test_fields() -> None:
    """Pairs are read, rubbish between them is not."""
    line = b"ContextStatus=RUNNING; RedundancyStatus = Master ;odd;a=b=c;"
    expected = {"ContextStatus": "RUNNING", "RedundancyStatus": "Master", "a": "b=c"}
    assert gateway_answers.parse_gwinfo(line) == expected
