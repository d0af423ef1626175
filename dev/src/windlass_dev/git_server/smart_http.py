"""A git server for development: smart HTTP by git's own backend, with injected faults.

`windlass dev git` and the tests run it. Real clients clone, fetch and push; the protocol is
git's own, except where a fault imitates it. It listens on loopback unless configured
otherwise and is not meant for untrusted networks.
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
    """What to serve, where, to whom. Without password and token there is no authentication."""

    root: Path
    """The directory of the repositories."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: int = 0
    """The port to listen on; 0 chooses a free one."""
    username: str = "git"
    """The user of basic authentication with `password`."""
    password: str = field(default="", repr=False)
    """The password of `username`; empty disables it."""
    token: str = field(default="", repr=False)
    """Accepted as bearer token, and as password of any user; empty disables it."""
    certificate: Path | None = None
    """The serving certificate, PEM; None serves plain HTTP."""
    key: Path | None = None
    """The key of the certificate, PEM."""
    control_file: Path | None = None
    """The file that injects faults, read at each request."""
    creates_on_push: bool = False
    """Whether a push creates a repository that does not exist."""
    request_seconds: float = 120.0
    """After how long a request is aborted."""
    git: str = "git"
    """The git program."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that the server received, for assertions in tests."""

    method: str
    path: str
    service: str
    had_authorization: bool


class GitServer:
    """An ASGI application over bare repositories, and the server that runs it."""

    def __init__(self, settings: GitServerSettings) -> None:
        self.settings = settings
        self.faults = ActiveFault(settings.control_file)
        self.repositories = BareRepositories(settings.root, settings.git)
        # The latest requests, oldest first; read by tests.
        self.requests: list[RecordedRequest] = []
        # Both None until `start`.
        self._server: _QuietServer | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen; return when requests are served."""
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
        """Stop listening and wait until the server has ended."""
        if self._server is not None and self._running is not None:
            self._server.should_exit = True
            await self._running

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        assert self._server is not None
        return int(self._server.servers[0].sockets[0].getsockname()[1])

    def url(self, repository: str) -> str:
        """The URL of a repository."""
        scheme = "https" if self.settings.certificate is not None else "http"
        return f"{scheme}://{self.settings.host}:{self.port}/{repository.removesuffix('.git')}.git"

    def create(self, repository: str, *, object_format: str = "sha1") -> Path:
        """Create a repository unless it exists; return its directory."""
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
        recorded = RecordedRequest(request.method, request.path, request.service, has_header)
        self.requests.append(recorded)
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
        async with git_backend.run_backend(
            self.settings.git, variables, request.body()
        ) as response:
            await fault_injection.relay_response(fault, request, response)

    def _variables(self, request: GitRequest, fault: GitFault | None) -> dict[str, str]:
        """The CGI variables of a request, and those that make the hooks reject it."""
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
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return bool(settings.token) and _equal_secrets(value, settings.token)
        user, password = _parse_basic(value) if scheme.lower() == "basic" else ("", "")
        if settings.token and _equal_secrets(password, settings.token):
            return True
        is_user = settings.password and _equal_secrets(user, settings.username)
        return bool(is_user and _equal_secrets(password, settings.password))


class _QuietServer(uvicorn.Server):
    """Installs no signal handlers: the caller that starts the server stops it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _parse_basic(value: str) -> tuple[str, str]:
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


def _equal_secrets(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
