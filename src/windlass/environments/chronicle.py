"""Says in the log what became of an Environment: one line per change, none for a quiet pass."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from windlass.objects.names import JSON, Object
from windlass.runtime.outcome import Outcome

_log = structlog.get_logger(__name__)
_FAILED = frozenset({"Failed", "Degraded"})


def tell(obj: Object, outcome: Outcome, seconds: float) -> None:
    """What a pass over `obj` found, if that is another phase or revision than was said before."""
    before, fields = obj.get("status") or {}, outcome.fields
    phase = fields.get("phase") or before.get("phase")
    revision = fields.get("revision") or before.get("revision")
    if (phase, revision) == (before.get("phase"), before.get("revision")):
        return
    metadata, verdict = obj["metadata"], outcome.ready
    say = _log.warning if phase in _FAILED else _log.info
    say(
        "environment",
        capability="environments",
        kind="Environment",
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation"),
        revision=revision,
        step=_last_step(fields),
        reason=verdict.reason if verdict is not None else "",
        commit=_commit(fields),
        duration_ms=round(1000 * seconds),
        outcome=phase,
    )


def _last_step(fields: Mapping[str, JSON]) -> str:
    """The step that a pass ended with."""
    looked_at = [row["name"] for row in fields.get("steps") or [] if row["state"] != "Pending"]
    return looked_at[-1] if looked_at else ""


def _commit(fields: Mapping[str, JSON]) -> str:
    sources = fields.get("sources") or []
    return str(sources[0].get("commit", "")) if sources else ""
