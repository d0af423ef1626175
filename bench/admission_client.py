"""Posts AdmissionReviews at a steady rate until its stdin closes, then reports the times."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import sys
import threading
import time
import uuid
from collections import Counter
from urllib.parse import urlsplit

from bench import samples

_CONNECTIONS = 4


class _Poster:
    """One connection that stays open and posts at its share of the rate."""

    def __init__(self, url: str, context: ssl.SSLContext, interval: float, delay: float) -> None:
        self.samples: list[tuple[float, float]] = []
        self.failures: Counter[str] = Counter()
        parts = urlsplit(url)
        self._path = parts.path
        self._connection = http.client.HTTPSConnection(parts.netloc, timeout=5, context=context)
        self._interval = interval
        self._delay = delay

    def run(self, over: threading.Event) -> None:
        due = time.monotonic() + self._delay
        while not over.wait(max(0.0, due - time.monotonic())):
            self._post()
            due = max(due + self._interval, time.monotonic())

    def _post(self) -> None:
        body = _review()
        began = time.monotonic()
        try:
            self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.failures[type(error).__name__] += 1
            self._connection.close()
            return
        self.samples.append((began, time.monotonic() - began))
        if answer.status != 200 or b'"allowed":true' not in text:
            self.failures[f"status {answer.status}"] += 1


def _review() -> bytes:
    """An update of a small ConfigMap that no rule selects."""
    made = samples.config_map("elsewhere", "posted", "1")
    made["metadata"] |= {"uid": str(uuid.uuid4()), "resourceVersion": "1"}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    request = {
        "uid": str(uuid.uuid4()),
        "operation": "UPDATE",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": resource,
        "requestResource": resource,
        "name": "posted",
        "namespace": "elsewhere",
        "userInfo": {"username": "carol", "groups": ["dev", "system:authenticated"]},
        "object": made,
        "oldObject": made,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review, separators=(",", ":")).encode()


def main() -> None:
    """Post until stdin closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    url, authority, rate = sys.argv[1:]
    context = ssl.create_default_context(cafile=authority)
    interval = _CONNECTIONS / float(rate)
    delays = [interval * number / _CONNECTIONS for number in range(_CONNECTIONS)]
    posters = [_Poster(url, context, interval, delay) for delay in delays]
    over = threading.Event()
    threads = [threading.Thread(target=poster.run, args=(over,)) for poster in posters]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()
    print(
        json.dumps(
            {
                "samples": [sample for poster in posters for sample in poster.samples],
                "failures": sum((poster.failures for poster in posters), Counter()),
            }
        )
    )


if __name__ == "__main__":
    main()
