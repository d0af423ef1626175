"""Credentials from the Secrets that objects name."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import cast

import pytest

from windlass.base.errors import Waiting
from windlass.git.credentials import ANONYMOUS, Credentials
from windlass.kube.api import Api
from windlass.kube.errors import Forbidden, NotFound
from windlass.objects.names import GVR, Object
from windlass.sources import credentials
from windlass.sources.credentials import CredentialRefs, KeyRef, SecretKeyMissing, SecretMissing


class Objects:
    """Stands in for the API server: Secrets and ConfigMaps of one namespace."""

    def __init__(self, **held: Mapping[str, str]) -> None:
        self.held = held
        self.reads: list[tuple[str, str, str]] = []

    async def get(self, gvr: GVR, name: str, namespace: str) -> Object:
        self.reads.append((gvr.resource, namespace, name))
        if name == "forbidden":
            raise Forbidden(403, "Forbidden", "no")
        if name not in self.held:
            raise NotFound(404, "NotFound", "no")
        data = self.held[name]
        if gvr.resource == "configmaps":
            return {"data": dict(data)}
        return {
            "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
        }


async def _read(objects: Objects, **named: object) -> Credentials:
    return await credentials.read_credentials(cast("Api", objects), "team", CredentialRefs(**named))  # type: ignore[arg-type]


async def test_without_references_access_is_anonymous() -> None:
    """A public repository needs no credentials, and nothing is read."""
    objects = Objects()
    assert await _read(objects) == ANONYMOUS
    assert objects.reads == []


@pytest.mark.parametrize(
    ("data", "key", "basic", "bearer"),
    [
        ({"token": "t"}, "", ("x-access-token", "t"), ""),
        ({"token": "t", "username": "u"}, "", ("u", "t"), ""),
        ({"password": "p", "username": "u"}, "", ("u", "p"), ""),
        ({"bearerToken": "b", "password": "p"}, "", None, "b"),
        ({"token": " ", "password": "p"}, "", ("x-access-token", "p"), ""),
        ({"mine": "m", "token": "t"}, "mine", ("x-access-token", "m"), ""),
    ],
)
async def test_tokens(
    data: dict[str, str], key: str, basic: tuple[str, str] | None, bearer: str
) -> None:
    """The first key that has a value, or the named one."""
    credentials_read = await _read(Objects(s=data), token=KeyRef("s", key))
    assert (credentials_read.basic, credentials_read.bearer) == (basic, bearer)


async def test_ssh_keys_with_their_host_keys() -> None:
    """Host keys come from the same Secret, unless another one is named."""
    held = {"identity": "KEY", "password": "phrase", "known_hosts": "own"}
    objects = Objects(s=held, hosts={"known_hosts": "other"})
    credentials_read = await _read(objects, ssh_key=KeyRef("s"))
    assert (
        credentials_read.ssh_key,
        credentials_read.ssh_passphrase,
        credentials_read.known_hosts,
    ) == (b"KEY\n", "phrase", b"own")
    credentials_read = await _read(objects, ssh_key=KeyRef("s"), known_hosts=KeyRef("hosts"))
    assert credentials_read.known_hosts == b"other"
    hosts = {"known_hosts": KeyRef("hosts"), "prefers_own_hosts": True}
    assert (await _read(objects, secret="s", **hosts)).known_hosts == b"own"
    objects.held["s"].pop("known_hosts")
    assert (await _read(objects, secret="s", **hosts)).known_hosts == b"other"
    credentials_read = await _read(objects, ssh_key=KeyRef("s"), verifies_host_keys=False)
    assert not credentials_read.host_key_verification


async def test_any_accepted_form_with_authority_and_proxy() -> None:
    """One Secret of any form; the authority may be in a ConfigMap."""
    objects = Objects(
        s={"username": "u", "password": "p"},
        ca={"ca.crt": "PEM"},
        way={"address": "http://proxy.example:3128"},
    )
    credentials_read = await _read(
        objects, secret="s", ca=KeyRef("ca", kind="ConfigMap"), proxy="way"
    )
    assert credentials_read.basic == ("u", "p")
    assert credentials_read.ca == b"PEM"
    assert credentials_read.proxy is not None
    assert ("configmaps", "team", "ca") in objects.reads


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"token": KeyRef("s", "x")}, r"Secret team/s has no key x \(found: a, b \(empty\)\)"),
        ({"token": KeyRef("s")}, r"none of the keys token, bearerToken, password \(found: a, b"),
        ({"ssh_key": KeyRef("none")}, r"\(found: none\)"),
        ({"secret": "s"}, r"Secret team/s: .*accepted keys"),
        ({"proxy": "s"}, r"has no key address"),
        ({"token": KeyRef("lines")}, r"Secret team/lines: key token .* single line"),
    ],
)
async def test_missing_keys_of_a_secret_are_named(named: dict[str, object], message: str) -> None:
    """Keys by name, values never; it is read again soon."""
    objects = Objects(s={"a": "canary", "b": ""}, none={}, lines={"token": "canary\nx"})
    with pytest.raises(SecretKeyMissing, match=message) as caught:
        await _read(objects, **named)
    assert "canary" not in str(caught.value)
    assert caught.value.after == credentials.RECHECK_SECONDS


@pytest.mark.parametrize(("name", "refused"), [("ghost", False), ("forbidden", True)])
async def test_a_missing_or_refused_object_waits(name: str, refused: bool) -> None:
    """Both recover without a change of the referring object."""
    with pytest.raises(SecretMissing, match=f"Secret team/{name}") as caught:
        await _read(Objects(), secret=name)
    assert isinstance(caught.value, Waiting)
    assert caught.value.is_refused is refused


async def test_values_are_in_no_repr() -> None:
    """Neither a value nor its length."""
    held = await credentials.read_holder(
        cast("Api", Objects(s={"token": "canary"})), "Secret", "team", "s"
    )
    assert "canary" not in repr(held) + str(held)
    assert held.value("token") == b"canary"
