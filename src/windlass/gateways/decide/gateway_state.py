"""Decides from the gateway's open pages whether it is up.

`/system/gwinfo` is a line of `name=value` pairs; while the gateway starts it answers
503. A gateway that waits for commissioning may call itself RUNNING there, so
`/StatusPing` is looked at too: a gateway counts as up only when neither speaks of it.

| gwinfo | StatusPing | State |
|---|---|---|
| no answer | | Down |
| not 200, or another ContextStatus | | Starting |
| ContextStatus names commissioning | | Commissioning |
| RUNNING | names commissioning | Commissioning |
| RUNNING | anything else | Running |
"""

from __future__ import annotations

from enum import StrEnum

from windlass.gateways.decide.scan_answers import Answer


class GatewayState(StrEnum):
    """What the gateway beside the agent is doing."""

    DOWN = "Down"
    STARTING = "Starting"
    COMMISSIONING = "Commissioning"
    RUNNING = "Running"


def fields(gwinfo: bytes) -> dict[str, str]:
    """The pairs of a gwinfo line; what is no pair is left out."""
    parts = gwinfo.decode("utf-8", "replace").strip().split(";")
    pairs = (part.partition("=") for part in parts)
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def state(gwinfo: Answer, ping: Answer | None = None) -> GatewayState:
    """The state both pages tell; without `ping` the first one alone is believed."""
    if gwinfo.fault is not None:
        return GatewayState.DOWN
    context = fields(gwinfo.body).get("ContextStatus", "") if gwinfo.ok else ""
    if _speaks_of_commissioning(context):
        return GatewayState.COMMISSIONING
    if context != "RUNNING":
        return GatewayState.STARTING
    if ping is not None and _speaks_of_commissioning(ping.body.decode("utf-8", "replace")):
        return GatewayState.COMMISSIONING
    return GatewayState.RUNNING


def _speaks_of_commissioning(text: str) -> bool:
    return "COMMISSIONING" in text.upper()
