"""The metadata that the controller publishes for agents."""

from __future__ import annotations

import dataclasses

import pytest

from windlass.gateways.wire import metadata
from windlass.gateways.wire.metadata import AgentMetadata, CommitSource, Overrides
from windlass.gateways.wire.routing import Routing, hash_routing

METADATA = AgentMetadata(
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
def test_metadata_survives_encoding(changes: dict[str, object]) -> None:
    """The agent reads what the controller published."""
    published = dataclasses.replace(METADATA, **changes)  # type: ignore[arg-type]
    assert metadata.decode(metadata.encode(published)) == published


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("", 0), ("x", 0), ("-5", 0), ("1.5", 0), ("99999999", 30_000)]
)
def test_an_invalid_jitter_is_zero_or_bounded(text: str, milliseconds: int) -> None:
    """It never delays an agent for more than 30 seconds."""
    keys = {**metadata.encode(METADATA), "jitterMs": text}
    assert metadata.decode(keys).jitter_ms == milliseconds
