"""Admission records and frames: what the webhook records, and what it never does."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from windlass.objects.names import GVR, Object
from windlass.reverser.attribution import webhook_frames, webhook_record
from windlass.reverser.attribution.webhook_record import RecordSettings
from windlass.web.admission import AdmissionRequest, Operation

_SETTINGS = RecordSettings(digest_key=b"k" * 32, sensitive=frozenset())


def _request(
    operation: Operation = "UPDATE",
    *,
    resource: str = "configmaps",
    subresource: str = "",
    namespace: str = "ns",
    dry_run: bool = False,
    new: Object | None = None,
    old: Object | None = None,
) -> AdmissionRequest:
    gvr = GVR("", "v1", resource)
    return AdmissionRequest(
        uid="request",
        operation=operation,
        gvr=gvr,
        subresource=subresource,
        namespace=namespace,
        name="",
        user="alice",
        groups=(),
        extra={"configbutler.ai/claims/email": ("alice@example.org",)},
        dry_run=dry_run,
        object=msgspec.json.encode(new) if new else b"",
        old_object=msgspec.json.encode(old) if old else b"",
    )


def _object(version: str = "1", **body: object) -> Object:
    metadata = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **body}


def test_the_uid_comes_from_the_object_also_in_bulk_deletes() -> None:
    """Bulk deletes have no name in the request; the old object knows who it is."""
    record = webhook_record.build_record(_request("DELETE", old=_object("7")), _SETTINGS, 1.0)
    assert record is not None
    assert (record.uid, record.name, record.old_resource_version) == ("u", "x", "7")
    assert record.content is None
    assert record.email == "alice@example.org"


@pytest.mark.parametrize(
    "request_",
    [
        _request(dry_run=True, new=_object(), old=_object()),
        _request("CREATE", subresource="binding", new=_object()),
        _request(new={"metadata": {"name": "x"}}),
        _request(),
    ],
    ids=["dry run", "binding", "no uid", "no object"],
)
def test_requests_without_a_possible_change_leave_no_record(request_: AdmissionRequest) -> None:
    """A record that nothing true could contradict must not exist."""
    assert webhook_record.build_record(request_, _SETTINGS, 1.0) is None


def test_scale_records_replicas_and_no_content() -> None:
    """The body of a scale request is not the object it scales."""
    scale = _object(spec={"replicas": 3})
    record = webhook_record.build_record(
        _request(resource="deployments", subresource="scale", new=scale, old=_object("5")),
        _SETTINGS,
        1.0,
    )
    assert record is not None
    assert (record.replicas, record.content, record.subresource) == (3, None, "scale")


def test_a_secret_is_hashed_under_a_key() -> None:
    """A record without the key does not allow guessing the value."""
    secret = _object(data={"pw": "aHVudGVyMg=="}) | {"kind": "Secret"}
    request = _request("CREATE", resource="secrets", new=secret)
    other = RecordSettings(b"o" * 32, frozenset())
    one, two = (
        webhook_record.build_record(request, settings, 1.0) for settings in (_SETTINGS, other)
    )
    assert one is not None
    assert two is not None
    assert one.content != two.content
    assert b"aHVudGVyMg" not in webhook_frames.encode_frame(one)


async def test_frames_survive_any_cut_of_the_stream() -> None:
    """A reader gets whole frames however the bytes arrive, and None at the end."""
    frames = [
        webhook_frames.ServingFrame(1.0),
        webhook_frames.LostFrame(1.0, 2.0, 3),
        webhook_frames.AnsweredFrame(2, [0.1, 0.2]),
    ]
    reader = asyncio.StreamReader()
    for byte in b"".join(webhook_frames.encode_frame(one) for one in frames):
        reader.feed_data(bytes([byte]))
    reader.feed_eof()
    assert [await webhook_frames.read_webhook_frame(reader) for _ in range(4)] == [*frames, None]


async def test_an_oversized_frame_is_refused() -> None:
    """A broken peer cannot make us allocate without end."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"\xff\xff\xff\xff")
    with pytest.raises(ValueError, match="exceeds the limit"):
        await webhook_frames.read_webhook_frame(reader)
