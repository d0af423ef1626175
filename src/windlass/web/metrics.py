"""`/metrics`: a registry in the text format a scraper asks for."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def metrics(registry: CollectorRegistry) -> Starlette:
    """An application that serves the registry."""

    async def scrape(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        content = await asyncio.to_thread(encode, registry)
        return Response(content, headers={"content-type": content_type})

    return Starlette(routes=[Route("/metrics", scrape, methods=["GET"])])
