"""Probe and metrics endpoints.

`/healthz`, `/readyz`, `/startupz` run named checks. A check is a plain function over state that is
already known, so a probe costs nothing and cannot hang. 200 means that all checks passed; 503 lists
those that did not, each with a sentence.

`/metrics` serves a registry in the text format that a scraper requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def metrics_app(registry: CollectorRegistry) -> Starlette:
    """An application that serves the registry."""

    async def scrape(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        content = await asyncio.to_thread(encode, registry)
        return Response(content, headers={"content-type": content_type})

    return Starlette(routes=[Route("/metrics", scrape, methods=["GET"])])


Check: TypeAlias = Callable[[], str | None]
"""None while all is well, else one sentence: what is wrong, what it waits for."""

_log = structlog.get_logger(__name__)


def probes_app(
    *,
    live: Mapping[str, Check],
    ready: Mapping[str, Check] | None = None,
    startup: Mapping[str, Check] | None = None,
) -> Starlette:
    """An application with the liveness, readiness and startup probes of the process."""
    probes = {"/healthz": live, "/readyz": ready, "/startupz": startup}
    return Starlette(
        routes=[_route(path, checks) for path, checks in probes.items() if checks is not None]
    )


def failed_checks(checks: Mapping[str, Check]) -> dict[str, str]:
    """The sentence of every check that does not pass now."""
    results = {name: _run(name, check) for name, check in checks.items()}
    return {name: sentence for name, sentence in results.items() if sentence}


def _route(path: str, checks: Mapping[str, Check]) -> Route:
    async def answer(request: Request) -> Response:
        failed = failed_checks(checks)
        if not failed:
            return PlainTextResponse("ok\n")
        text = "".join(f"{name}: {sentence}\n" for name, sentence in sorted(failed.items()))
        return PlainTextResponse(text, status_code=503)

    return Route(path, answer, methods=["GET"])


def _run(name: str, check: Check) -> str | None:
    try:
        return check()
    except Exception as error:
        _log.exception("probe check failed", check=name)
        return f"internal error in the check ({type(error).__name__}); see the log"
