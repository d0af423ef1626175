"""Writes to the API server at little cost, so that who is measured has the machine.

Plain HTTP of the standard library on connections that stay open; a full client would
use more CPU time than the server and everybody who is measured here.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from windlass_dev.cluster.local_cluster import LocalCluster

_SECONDS = 30.0
_MERGE_PATCH = "application/merge-patch+json"


class Writer:
    """One connection, as the cluster's administrator."""

    def __init__(self, cluster: LocalCluster) -> None:
        pki = cluster.directory / "pki"
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._connection = http.client.HTTPSConnection(
            urlsplit(cluster.server).netloc, timeout=_SECONDS, context=context
        )

    def create(self, path: str, obj: dict[str, Any]) -> None:
        self._send("POST", path, obj, "application/json")

    def patch(self, path: str, patch: dict[str, Any]) -> None:
        self._send("PATCH", path, patch, _MERGE_PATCH)

    def close(self) -> None:
        self._connection.close()

    def _send(self, method: str, path: str, body: dict[str, Any], content_type: str) -> None:
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        self._connection.request(method, path, json.dumps(body), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")


def write_all(
    cluster: LocalCluster,
    numbers: Iterable[int],
    write: Callable[[Writer, int], None],
    *,
    writers: int,
) -> None:
    """`write` once for every number; a number always falls to the same writer."""
    lots: list[list[int]] = [[] for _ in range(writers)]
    for number in numbers:
        lots[number % writers].append(number)

    def work(lot: list[int]) -> None:
        writer = Writer(cluster)
        try:
            for number in lot:
                write(writer, number)
        finally:
            writer.close()

    with ThreadPoolExecutor(writers) as pool:
        for done in [pool.submit(work, lot) for lot in lots]:
            done.result()
