"""Redaction shows that a value changed, and nothing else."""

from __future__ import annotations

import base64
import binascii
import copy
import re
from typing import Any

import pytest

from tests.unit.reverser.test_sanitise_kinds import live
from windlass.objects import canonical
from windlass.objects.gvr import GVR
from windlass.objects.identity import Identity
from windlass.reverser.decide import sanitise, secrets

SALT = b"s" * 32
SECRETS = GVR("", "v1", "secrets")
MINE = Identity(SECRETS, "shop", "database")
SHAPE = re.compile(r"REDACTED\(hmac:[0-9a-f]{16}\)")


def secret(**data: str) -> dict[str, Any]:
    """A cleaned Secret."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "database", "namespace": "shop", "labels": {"a": "b"}},
        "type": "Opaque",
        "immutable": True,
        "data": data,
    }


@pytest.mark.scenario("A51")
def test_keys_and_type_stay_and_values_go() -> None:
    """What describes the Secret is kept; the input is not changed."""
    obj = secret(user="YQ==", password="Yg==")
    before = copy.deepcopy(obj)
    redacted = secrets.redacted(obj, MINE, SALT)
    assert obj == before
    assert {key: redacted[key] for key in redacted if key != "data"} == {
        key: obj[key] for key in obj if key != "data"
    }
    assert redacted["data"].keys() == {"user", "password"}
    assert all(SHAPE.fullmatch(value) for value in redacted["data"].values())


@pytest.mark.scenario("A51")
def test_digest_follows_value_place_and_salt() -> None:
    """Equal values under two keys, in two Secrets or two destinations differ; all else repeats."""
    obj = secret(one="YQ==", two="YQ==")
    first = secrets.redacted(obj, MINE, SALT)["data"]
    assert first["one"] != first["two"]
    assert secrets.redacted(obj, MINE, SALT)["data"] == first
    assert secrets.redacted(secret(one="Yg=="), MINE, SALT)["data"]["one"] != first["one"]
    elsewhere = Identity(SECRETS, "shop", "other")
    assert secrets.redacted(obj, elsewhere, SALT)["data"]["one"] != first["one"]
    salt = secrets.destination_salt(SALT, "shop/other")
    assert secrets.redacted(obj, MINE, salt)["data"]["one"] != first["one"]


@pytest.mark.scenario("A51")
def test_no_plaintext_in_the_file_of_a_real_secret() -> None:
    """Neither the values nor their decoded forms are in the emitted bytes."""
    obj = live("secrets")
    file = canonical.emit(secrets.redacted(sanitise.cleaned(obj), MINE, SALT))
    for value in obj["data"].values():
        assert value.encode() not in file
    assert base64.b64decode(obj["data"]["password"]) not in file


@pytest.mark.scenario("A48")
def test_placeholder_is_no_base64() -> None:
    """The API server cannot decode it, so the file cannot be applied."""
    value = secrets.redacted(secret(a="YQ=="), MINE, SALT)["data"]["a"]
    with pytest.raises(binascii.Error):
        base64.b64decode(value, validate=True)


def test_sensitive_kinds_lose_every_text_outside_metadata() -> None:
    """Structure, numbers and booleans stay; texts at any depth are replaced, each by its own."""
    identity = Identity(GVR("example.org", "v1", "vaults"), "", "v")
    obj = {
        "apiVersion": "example.org/v1",
        "kind": "Vault",
        "metadata": {"name": "v"},
        "spec": {"items": ["x", "x", 3, True, None], "deep": {"token": "x"}},
        "note": "x",
    }
    redacted = secrets.redacted(obj, identity, SALT)
    assert (redacted["apiVersion"], redacted["kind"]) == ("example.org/v1", "Vault")
    items = redacted["spec"]["items"]
    assert items[2:] == [3, True, None]
    texts = {items[0], items[1], redacted["spec"]["deep"]["token"], redacted["note"]}
    assert len(texts) == 4
    assert all(SHAPE.fullmatch(text) for text in texts)


@pytest.mark.scenario("A56")
def test_uncleaned_object_is_refused() -> None:
    """The copy kubectl keeps in an annotation would carry the plaintext into Git."""
    with pytest.raises(ValueError, match="cleaned"):
        secrets.redacted(live("secrets"), MINE, SALT)


@pytest.mark.parametrize(
    ("gvr", "sensitive"),
    [
        (SECRETS, True),
        (GVR("", "v1", "configmaps"), False),
        (GVR("example.org", "v1", "secrets"), False),
        (GVR("example.org", "v2", "vaults"), True),
        (GVR("", "v1", "vaults"), False),
        (GVR("", "v1", "tokens"), True),
    ],
)
def test_sensitive_types(gvr: GVR, sensitive: bool) -> None:
    """Core Secrets always; others by group and resource, in any version."""
    named = frozenset(["example.org/vaults", "tokens"])
    assert secrets.is_sensitive(gvr, named) is sensitive


def test_salts_are_told_apart_by_purpose() -> None:
    """No derived key is another, and none is the salt."""
    keys = {
        SALT,
        secrets.destination_salt(SALT, "a/b"),
        secrets.destination_salt(SALT, "a/c"),
        secrets.destination_salt(SALT, ""),
        secrets.digest_key(SALT),
    }
    assert len(keys) == 5
    assert len(secrets.digest_key(SALT)) <= 64
