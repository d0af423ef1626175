"""AdmissionReview: parsing, responses, broken bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.runtime.fakes import ManualClock
from windlass.objects.names import GVR
from windlass.web import admission
from windlass.web.admission import AdmissionEndpoint, AdmissionRequest, ReviewUnreadable

PATH = "/process-validating-webhook/0123"


def review(**changes: Any) -> bytes:
    """A review of a scale update, with changes to its request."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "subResource": "scale",
        "requestResource": {"group": "apps", "version": "v1beta1", "resource": "deployments"},
        "name": "web",
        "namespace": "team",
        "operation": "UPDATE",
        "userInfo": {
            "username": "alice",
            "groups": ["dev", "system:authenticated"],
            "extra": {"configbutler.ai/claims/email": ["alice@example.org"]},
        },
        "object": {"a": 1},
        "oldObject": {"a": 0},
        "dryRun": False,
        "options": {"kind": "UpdateOptions"},
    }
    envelope = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
    return json.dumps({**envelope, "request": {**request, **changes}}).encode()


def test_all_needed_fields_are_read() -> None:
    """A scale update by a named user is read with both objects."""
    assert admission.parse(review()) == AdmissionRequest(
        uid="705ab4f5-6393-11e8-b7cc-42010a800002",
        operation="UPDATE",
        gvr=GVR("apps", "v1", "deployments"),
        subresource="scale",
        namespace="team",
        name="web",
        user="alice",
        groups=("dev", "system:authenticated"),
        extra={"configbutler.ai/claims/email": ("alice@example.org",)},
        dry_run=False,
        object=b'{"a": 1}',
        old_object=b'{"a": 0}',
    )


def test_absent_parts_have_empty_values() -> None:
    """Nulls and left out fields become empty values of the same type."""
    body = review(object=None, oldObject=None, userInfo={}, dryRun=None)
    request = admission.parse(body)
    assert (request.object, request.old_object) == (b"", b"")
    assert (request.user, request.groups, request.extra) == ("", (), {})
    assert request.dry_run is False


def test_dry_run_is_seen() -> None:
    """A dry-run request is marked as one."""
    assert admission.parse(review(dryRun=True)).dry_run


def test_objects_stay_out_of_representations() -> None:
    """A printed request shows no object content."""
    assert "hunter2" not in repr(admission.parse(review(object={"data": "hunter2"})))


def test_the_response_allows_and_repeats_the_uid() -> None:
    """It is a v1 review that allows, with the uid safely encoded."""
    assert json.loads(admission.allow('u"1')) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": 'u"1', "allowed": True},
    }


@pytest.mark.parametrize(
    ("body", "uid"),
    [
        (b"", ""),
        (b"null", ""),
        (b"\xff\xfe", ""),
        (b"[" * 100_000, ""),
        (b'{"request":{"uid":"u-1","operation":"UPD', "u-1"),
        (review(operation="TRANSMUTE"), "705ab4f5-6393-11e8-b7cc-42010a800002"),
        (review(userInfo=[1]), "705ab4f5-6393-11e8-b7cc-42010a800002"),
        (review().replace(b"k8s.io/v1", b"k8s.io/v9"), "705ab4f5-6393-11e8-b7cc-42010a800002"),
        (b'{"request":{"object":{"uid":"someone-else"}', ""),
    ],
)
def test_an_unreadable_body_yields_at_most_its_uid(body: bytes, uid: str) -> None:
    """Its own uid or none, never another."""
    with pytest.raises(ReviewUnreadable) as caught:
        admission.parse(body)
    assert caught.value.uid == uid


class Exchange:
    """An ASGI exchange without a server that records the order of steps."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.steps: list[str] = []
        self.status = 0
        self.answer = b""

    async def receive(self) -> dict[str, Any]:
        half = len(self.body) // 2
        part, self.body = self.body[: half + 1], self.body[half + 1 :]
        return {"type": "http.request", "body": part, "more_body": bool(self.body)}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.answer += message["body"]
            self.steps.append("answered")


async def run(
    endpoint: AdmissionEndpoint,
    exchange: Exchange,
    path: str = PATH,
    method: str = "POST",
) -> None:
    """Run one exchange."""
    scope = {"type": "http", "path": path, "method": method}
    await endpoint(scope, exchange.receive, exchange.send)


async def test_the_request_is_passed_on_before_the_response_is_sent() -> None:
    """Whoever sees the write can rely on it: the response lets the write happen."""
    exchange = Exchange(review())
    seconds: list[float] = []
    endpoint = AdmissionEndpoint(
        lambda request: exchange.steps.append(request.user), paths=[PATH], timed=seconds.append
    )
    await run(endpoint, exchange)
    assert exchange.steps == ["alice", "answered"]
    assert exchange.status == 200
    assert len(seconds) == 1


async def test_a_call_is_open_until_it_was_passed_on() -> None:
    """Of one that is still being read, nobody knows yet which write it is about."""
    during: list[float | None] = []
    endpoint = AdmissionEndpoint(
        lambda _: during.append(endpoint.oldest_open_call), paths=[PATH], clock=ManualClock()
    )
    exchange = Exchange(review())
    scope = {"type": "http", "path": PATH, "method": "POST"}
    endpoint.opened(scope)
    assert endpoint.oldest_open_call is not None
    await endpoint(scope, exchange.receive, exchange.send)
    assert during[0] is not None
    assert endpoint.oldest_open_call is None
    endpoint.opened(scope)
    endpoint.failed(scope)
    assert endpoint.oldest_open_call is None


async def test_a_failing_callback_does_not_affect_the_response() -> None:
    """The write is allowed, and the request counts as lost."""

    def explode(request: AdmissionRequest) -> None:
        raise RuntimeError("queue")

    exchange, lost = Exchange(review()), list[int]()
    await run(AdmissionEndpoint(explode, paths=[PATH], lost=lambda: lost.append(1)), exchange)
    assert (exchange.status, lost) == (200, [1])


@pytest.mark.parametrize(("body", "status"), [(b'{"request":{"uid":"u-1"', 200), (b"{}", 400)])
async def test_unread_bodies_are_allowed_where_possible(body: bytes, status: int) -> None:
    """A broken body is allowed if its uid is known, and never passed on."""
    exchange = Exchange(body)
    received: list[AdmissionRequest] = []
    lost: list[int] = []
    endpoint = AdmissionEndpoint(received.append, paths=[PATH], lost=lambda: lost.append(1))
    await run(endpoint, exchange)
    assert (exchange.status, received, lost) == (status, [], [1])


@pytest.mark.parametrize("path", ["/x", "", "/process-validating-webhook", PATH + "4", PATH[:-1]])
async def test_other_paths_are_not_found(path: str) -> None:
    """Only the webhook's path is served, and other requests are not record gaps."""
    exchange = Exchange(review())
    lost: list[int] = []
    endpoint = AdmissionEndpoint(lambda _: None, paths=[PATH], lost=lambda: lost.append(1))
    await run(endpoint, exchange, path)
    assert (exchange.status, lost) == (404, [])


async def test_a_path_is_accepted_until_it_is_replaced() -> None:
    """Each of several paths is served; a former one is not."""
    endpoint = AdmissionEndpoint(lambda _: None, paths=["/old"])
    statuses = []
    for paths in (["/new", "/old"], ["/new"]):
        endpoint.accept(paths)
        for path in ("/new", "/old"):
            exchange = Exchange(review())
            await run(endpoint, exchange, path)
            statuses.append(exchange.status)
    assert statuses == [200, 200, 200, 404]


async def test_other_methods_are_refused() -> None:
    """Only POST is served."""
    exchange = Exchange(b"")
    await run(AdmissionEndpoint(lambda _: None, paths=[PATH]), exchange, method="GET")
    assert exchange.status == 405
