"""One pass over one Project: can its repositories be reached, and how are its copies?"""

from __future__ import annotations

from windlass.base.errors import Stalled, Waiting, WindlassError
from windlass.environments.acceptance import OPERATOR_SUSPENDED
from windlass.environments.cache import Cache
from windlass.environments.decide.wish import SourceWish
from windlass.environments.source import Sources
from windlass.objects.condition import Condition
from windlass.objects.json import Object
from windlass.objects.key import Key
from windlass.runtime.outcome import Outcome, Verdict

SOURCES_READY = "SourcesReady"


class Projects:
    """Every Project."""

    def __init__(
        self, cache: Cache, sources: Sources, *, poll_seconds: float, suspended: bool
    ) -> None:
        self._cache = cache
        self._sources = sources
        self._poll_seconds = poll_seconds
        self._suspended = suspended

    async def reconcile(self, key: Key) -> Outcome:
        """One pass."""
        project = self._cache.project(key)
        if project is None:
            return Outcome.gone()
        tally: Object = {"environments": self._tally(key)}
        if self._suspended or project.spec.suspend:
            own = "it is suspended; nothing is changed until spec.suspend is false"
            text = OPERATOR_SUSPENDED if self._suspended else own
            return Outcome(Verdict(None, "Suspended", text), fields=tally)
        heads: list[Object] = []
        for source in project.spec.sources or ():
            secret = source.secret_ref.name if source.secret_ref is not None else ""
            wanted = SourceWish(source.name, source.repository_url, secret, source.branch, "")
            try:
                found = await self._sources.settle(
                    key.namespace, wanted, max_age_seconds=self._poll_seconds
                )
            except WindlassError as error:
                return _unreachable(source.name, error, tally)
            heads.append({"name": source.name, "head": found.commit})
        text = f"{len(heads)} repositories can be read"
        return Outcome(
            Verdict("True", "Succeeded", text),
            conditions=(Condition(SOURCES_READY, "True", "SourcesReady", text),),
            fields={**tally, "sources": heads},
            requeue_after=self._poll_seconds,
        )

    def _tally(self, key: Key) -> Object:
        phases = self._cache.phases_of(key)
        return {
            "total": len(phases),
            "ready": phases.count("Ready"),
            "failed": phases.count("Failed"),
        }


def _unreachable(name: str, error: WindlassError, fields: Object) -> Outcome:
    text = f"source {name}: {error.reason}: {error.message}"
    after = error.after if isinstance(error, Stalled | Waiting) else None
    return Outcome(
        Verdict("False", error.reason, text),
        stalled=isinstance(error, Stalled),
        reconciling=not isinstance(error, Stalled),
        conditions=(Condition(SOURCES_READY, "False", error.reason, text),),
        fields=fields,
        requeue_after=after,
        backoff=after is None,
        warns=True,
    )
