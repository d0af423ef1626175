"""What the controller tells agents about rollbacks and patience."""

from __future__ import annotations

import dataclasses

import pytest

from windlass.gateways.wire import metadata
from windlass.gateways.wire.metadata import AgentMetadata, CommitSource, Overrides
from windlass.gateways.wire.routing import Routing, hash_routing

TOLD = AgentMetadata(
    Routing(), hash_routing(Routing()), CommitSource("1" * 40, "main", "https://h/x.git")
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jitter_ms": 250},
        {"overrides": Overrides(mass_delete="2" * 40, rollback="site@x")},
        {"terminating": True, "trigger": "abc"},
    ],
)
def test_what_is_told_is_understood(changes: dict[str, object]) -> None:
    """Both sides read the same."""
    told = dataclasses.replace(TOLD, **changes)  # type: ignore[arg-type]
    assert metadata.decode(metadata.encode(told)) == told


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("", 0), ("x", 0), ("-5", 0), ("1.5", 0), ("99999999", 30_000)]
)
def test_a_strange_jitter_delays_nobody_for_long(text: str, milliseconds: int) -> None:
    """Nonsense is none, and there is a bound."""
    keys = {**metadata.encode(TOLD), "jitterMs": text}
    assert metadata.decode(keys).jitter_ms == milliseconds
