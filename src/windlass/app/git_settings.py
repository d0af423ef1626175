"""How git may be used, out of the settings of the process."""

from __future__ import annotations

from urllib.parse import urlsplit

from windlass.app.settings import Settings
from windlass.git.settings import GitSettings


def of(settings: Settings, at_desk: bool, api_server: str) -> GitSettings:
    """At the desk, repositories may be files and servers may be on this machine."""
    # The last one is where a cluster with a node sees this machine, and its git server.
    own = {"127.0.0.1", "localhost", settings.webhook_bind_address.host}
    desk = frozenset(own if at_desk else ())
    return GitSettings(
        insecure_hosts=frozenset(settings.git_insecure_hosts) | desk,
        allow_file=at_desk,
        refused_cidrs=settings.git_refused_cidrs,
        api_server=_endpoint(api_server),
        fetch_timeout_seconds=settings.git_fetch_timeout,
        push_timeout_seconds=settings.git_push_timeout,
    )


def _endpoint(server: str) -> tuple[str, int]:
    parts = urlsplit(server)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
