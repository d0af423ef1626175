"""Whether a gateway is running, from its unauthenticated pages."""

from __future__ import annotations

import pytest

from windlass.gateways.agent import gateway_answers
from windlass.gateways.agent.gateway_answers import GatewayAnswer, GatewayState, RequestFault

RUNNING = GatewayAnswer(200, b"ContextStatus=RUNNING;RedundantState=Good;\n")


@pytest.mark.parametrize(
    ("gwinfo", "ping", "expected"),
    [
        (GatewayAnswer(fault=RequestFault.UNREACHABLE), None, GatewayState.DOWN),
        (GatewayAnswer(fault=RequestFault.TIMEOUT), None, GatewayState.UNRESPONSIVE),
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
def test_the_state_of_a_gateway(
    gwinfo: GatewayAnswer, ping: GatewayAnswer | None, expected: GatewayState
) -> None:
    """Running means ContextStatus RUNNING and no commissioning in progress."""
    assert gateway_answers.gateway_state(gwinfo, ping) is expected


def test_gwinfo_is_parsed_into_pairs() -> None:
    """Text between the pairs is ignored."""
    line = b"ContextStatus=RUNNING; RedundancyStatus = Master ;odd;a=b=c;"
    expected = {"ContextStatus": "RUNNING", "RedundancyStatus": "Master", "a": "b=c"}
    assert gateway_answers.parse_gwinfo(line) == expected
