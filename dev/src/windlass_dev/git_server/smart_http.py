"""A git server for development: smart HTTP by git's own backend, with faults on demand.

Real clients clone, fetch and push; nothing of the protocol is imitated, except where a
fault asks for it. It is for local clusters and for tests, not for the world: it listens
on loopback unless configured otherwise.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from windlass_dev.git_server import fault_injection, git_backend
from windlass_dev.git_server.bare_repositories import (
    PROTECT_VARIABLE,
    REJECT_VARIABLE,
    BareRepositories,
    InvalidRepositoryName,
    git_environment,
)
from windlass_dev.git_server.fault_injection import ActiveFault, GitFault
from windlass_dev.git_server.git_backend import (
    AsgiReceive,
    AsgiScope,
    AsgiSend,
    ClientGone,
    GitRequest,
)

_MAX_RECORDED_REQUESTS = 10_000


@dataclass(frozen=True, slots=True)
class GitServerSettings:
    """Where to serve what, to whom. Without password and token everybody may do everything."""

    root: Path
    host: str = "127.0.0.1"
    port: int = 0
    username: str = "git"
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    certificate: Path | None = None
    key: Path | None = None
    control_file: Path | None = None
    creates_on_push: bool = False
    request_seconds: float = 120.0
    git: str = "git"


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request the server got."""

    method: str
    path: str
    service: str
    had_authorization: bool


class GitServer:
    """An ASGI application, and the server that runs it."""

    def __init__(self, settings: GitServerSettings) -> None:
        self.settings = settings
        self.faults = ActiveFault(settings.control_file)
        self.repositories = BareRepositories(settings.root, settings.git)
        self.requests: list[RecordedRequest] = []
        self._server: _QuietServer | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen; returns when requests are answered."""
        settings = self.settings
        config = uvicorn.Config(
            self,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            lifespan="off",
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
            timeout_graceful_shutdown=1,
        )
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._server = _QuietServer(config)
        self._running = asyncio.create_task(self._server.serve())
        while not self._server.started:
            if self._running.done():
                await self._running
                raise OSError(f"cannot listen on {settings.host}:{settings.port}")
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        if self._server is not None and self._running is not None:
            self._server.should_exit = True
            await self._running

    async def wait(self) -> None:
        """Until the server ends."""
        if self._running is not None:
            await self._running

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    def url(self, repository: str) -> str:
        scheme = "https" if self.settings.certificate is not None else "http"
        return f"{scheme}://{self.settings.host}:{self.port}/{repository.removesuffix('.git')}.git"

    def create(self, repository: str, *, object_format: str = "sha1") -> Path:
        return self.repositories.create(repository, object_format=object_format)

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        if scope["type"] != "http":
            return
        request = GitRequest(scope, receive, send)
        allowed = self._is_allowed(request)
        self._record(request)
        fault = await asyncio.to_thread(
            self.faults.take, request.service, advertisement=request.method == "GET"
        )
        with contextlib.suppress(TimeoutError, ClientGone):
            async with asyncio.timeout(self.settings.request_seconds):
                await self._answer(request, fault, allowed)

    def _record(self, request: GitRequest) -> None:
        has_header = "authorization" in request.headers
        seen = RecordedRequest(request.method, request.path, request.service, has_header)
        self.requests.append(seen)
        del self.requests[:-_MAX_RECORDED_REQUESTS]

    async def _answer(self, request: GitRequest, fault: GitFault | None, allowed: bool) -> None:
        if fault is not None and await fault_injection.answer_with_fault(fault, request):
            return
        if not allowed:
            await request.refuse_credentials()
            return
        try:
            path = self.repositories.path(request.repository)
        except InvalidRepositoryName:
            await request.reply(404, b"no such repository\n")
            return
        if not path.exists():
            if not self.settings.creates_on_push or request.service != "receive-pack":
                await request.reply(404, b"no such repository\n")
                return
            await asyncio.to_thread(self.repositories.create, request.repository)
        await self._run_git(request, fault)

    async def _run_git(self, request: GitRequest, fault: GitFault | None) -> None:
        variables = self._variables(request, fault)
        async with git_backend.run_backend(self.settings.git, variables, request.body()) as answer:
            await fault_injection.relay_response(fault, request, answer)

    def _variables(self, request: GitRequest, fault: GitFault | None) -> dict[str, str]:
        """The CGI variables of a request, and what the hooks shall do."""
        headers = request.headers
        variables = git_environment() | {
            "GIT_PROJECT_ROOT": str(self.settings.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": request.path,
            "REQUEST_METHOD": request.method,
            "QUERY_STRING": request.query,
            "CONTENT_TYPE": headers.get("content-type", ""),
            "REMOTE_USER": self.settings.username or "git",
            "REMOTE_ADDR": "127.0.0.1",
            "GIT_PROTOCOL": headers.get("git-protocol", ""),
            "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
            REJECT_VARIABLE: fault.text if fault and fault.mode == "reject" else "",
            PROTECT_VARIABLE: fault.branch if fault and fault.mode == "protected" else "",
        }
        if "content-length" in headers:
            variables["CONTENT_LENGTH"] = headers["content-length"]
        return variables

    def _is_allowed(self, request: GitRequest) -> bool:
        settings = self.settings
        if not settings.password and not settings.token:
            return True
        kind, _, value = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return bool(settings.token) and _equal_secrets(value, settings.token)
        user, password = _parse_basic(value) if kind.lower() == "basic" else ("", "")
        if settings.token and _equal_secrets(password, settings.token):
            return True
        known = settings.password and _equal_secrets(user, settings.username)
        return bool(known and _equal_secrets(password, settings.password))


class _QuietServer(uvicorn.Server):
    """Leaves the process's signals alone: whoever starts the server ends it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _parse_basic(value: str) -> tuple[str, str]:
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


def _equal_secrets(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
