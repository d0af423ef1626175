"""Requests to an API server by nothing but the standard library."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml


@dataclass(frozen=True)
class Answer:
    """Status code and decoded body."""

    status: int
    body: dict[str, Any]

    @property
    def accepted(self) -> bool:
        return self.status < 300

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Server:
    """One kept-alive connection with the client certificate of a kubeconfig."""

    def __init__(self, kubeconfig: Path, scratch: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(
            cadata=_part(cluster, "certificate-authority").decode()
        )
        pair = scratch / "client.pem"
        certificate, key = _part(user, "client-certificate"), _part(user, "client-key")
        pair.write_bytes(certificate + b"\n" + key)
        context.load_cert_chain(pair)
        place = urlsplit(cluster["server"])
        self._http = http.client.HTTPSConnection(
            place.hostname or "", place.port, context=context, timeout=30
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.close()

    def get(self, path: str, *, accept: str = "application/json") -> Answer:
        return self._ask("GET", path, None, {"Accept": accept})

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        return self._ask("POST", path, body, {"Content-Type": "application/json"})

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None, headers: dict[str, str]
    ) -> Answer:
        payload = None if body is None else json.dumps(body)
        self._http.request(method, path, payload, headers)
        response = self._http.getresponse()
        return Answer(response.status, json.loads(response.read()))


def _part(section: dict[str, str], name: str) -> bytes:
    if f"{name}-data" in section:
        return base64.b64decode(section[f"{name}-data"])
    return Path(section[name]).read_bytes()
