"""How git may be used, out of the settings of the process."""

from __future__ import annotations

from urllib.parse import urlsplit

from windlass.app.settings import Settings
from windlass.git.settings import GitSettings


def of(settings: Settings, api_server: str) -> GitSettings:
    """The limits and permissions of git; a remote is never at `api_server`."""
    return GitSettings(
        insecure_hosts=frozenset(settings.git_insecure_hosts),
        allow_file=settings.git_allow_file,
        refused_cidrs=settings.git_refused_cidrs,
        api_server=_endpoint(api_server),
        fetch_timeout_seconds=settings.git_fetch_timeout,
        push_timeout_seconds=settings.git_push_timeout,
    )


def _endpoint(server: str) -> tuple[str, int]:
    parts = urlsplit(server)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
