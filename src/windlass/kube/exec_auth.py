"""Bearer tokens from an exec credential plugin of the kubeconfig.

lightkube runs exec plugins; this adds what hundreds of streams and current plugins need: one run of
the plugin serves all waiting requests, `client.authentication.k8s.io/v1` is supported, the plugin
gets KUBERNETES_EXEC_INFO, and its failures are our errors. A new token is requested only after the
server refused the last one. A plugin gets no stdin and a deadline; when that is over, or no request
waits any more, its process group is killed.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import httpx2
import msgspec
from lightkube.config.client_adapter import ExecAuth, user_auth
from lightkube.config.models import User, UserExec

from windlass.base import process_group, redaction
from windlass.base.errors import Retryable, Stalled
from windlass.kube.errors import clean

PLUGIN_SECONDS = 60.0

_VERSIONS = frozenset(
    f"client.authentication.k8s.io/{version}" for version in ("v1alpha1", "v1beta1", "v1")
)


class _Credential(msgspec.Struct):
    token: str


class _ExecCredential(msgspec.Struct):
    status: _Credential


class ExecPlugin(ExecAuth):
    """A bearer token from a plugin, shared by every request of a connection."""

    def __init__(self, plugin: UserExec, cluster: Mapping[str, Any] | None = None) -> None:
        super().__init__(plugin)
        # `spec.cluster` for the plugin; None where it does not request it.
        self._cluster = cluster
        if plugin.apiVersion not in _VERSIONS:
            raise Stalled(
                "KubeconfigInvalid",
                f"users[].user.exec.apiVersion is {plugin.apiVersion[:64]!r}; "
                f"use client.authentication.k8s.io/v1",
            )
        # One run of the plugin at a time.
        self._lock = asyncio.Lock()
        # The last token; empty before the first run.
        self._token = ""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        used = self._token or await self._renew_token("")
        request.headers["Authorization"] = f"Bearer {used}"
        response = yield request
        if response.status_code != 401:
            return
        request.headers["Authorization"] = f"Bearer {await self._renew_token(used)}"
        yield request

    async def _renew_token(self, refused: str) -> str:
        """A token other than `refused`; concurrent callers share one run of the plugin."""
        async with self._lock:
            if self._token == refused:
                self._token = await self._run_plugin()
                redaction.process.add(self._token)
                if refused:
                    redaction.process.discard(refused)
            return self._token

    async def _run_plugin(self) -> str:
        plugin = self._exec
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                output = await _output(_command(plugin), _environment(plugin, self._cluster))
            return msgspec.json.decode(output, type=_ExecCredential).status.token
        except TimeoutError as error:
            raise _failed(plugin, f"timed out after {PLUGIN_SECONDS:g} s") from error
        except OSError as error:
            raise _failed(plugin, f"failed: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _failed(plugin, "did not print an ExecCredential with a token") from error


def exec_authentication(
    user: User, plugin_cluster: Mapping[str, Any] | None = None
) -> httpx2.Auth | None:
    """The authentication of this user; None where a client certificate does it."""
    if user.token:
        redaction.process.add(user.token.strip())
    if user.password:
        redaction.process.add(user.password)
    if user.exec and not (user.token or user.token_file):
        return ExecPlugin(user.exec, plugin_cluster)
    return user_auth(user)


async def _output(command: Sequence[str], environment: dict[str, str]) -> bytes:
    """The stdout of the plugin; OSError where it exits with an error."""
    process = await process_group.started(
        *command, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        stdout, stderr = await process.communicate()
    finally:
        await process_group.end(process)
    if process.returncode != 0:
        text = stderr.decode("utf-8", "replace").strip()
        raise OSError(f"exit status {process.returncode}: {text}")
    return stdout


def _failed(plugin: UserExec, how: str) -> Retryable:
    return Retryable(
        "CredentialPluginFailed", clean(f"the credential plugin {plugin.command!r} {how}")
    )


def _command(plugin: UserExec) -> list[str]:
    return [plugin.command, *(plugin.args or [])]


def _environment(plugin: UserExec, cluster: Mapping[str, Any] | None) -> dict[str, str]:
    info = {
        "apiVersion": plugin.apiVersion,
        "kind": "ExecCredential",
        "spec": {"interactive": False} | ({"cluster": cluster} if cluster else {}),
    }
    exec_info = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    return {**os.environ, **exec_info, **{var.name: var.value for var in plugin.env or []}}
