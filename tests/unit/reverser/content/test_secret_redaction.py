"""Redaction shows that a value changed, and nothing else."""

from __future__ import annotations

import base64
import binascii
import copy
import re
from typing import Any

import pytest

from tests.unit.reverser.content.test_sanitize_rules import live
from windlass.objects import yaml_emitter
from windlass.objects.names import GVR, Identity
from windlass.reverser.content import sanitize, secret_redaction

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
    redacted = secret_redaction.redact_object(obj, MINE, SALT)
    assert obj == before
    assert {key: redacted[key] for key in redacted if key != "data"} == {
        key: obj[key] for key in obj if key != "data"
    }
    assert redacted["data"].keys() == {"user", "password"}
    assert all(SHAPE.fullmatch(value) for value in redacted["data"].values())


@pytest.mark.scenario("A51")
def test_digest_depends_on_value_path_and_salt() -> None:
    """Equal values under two keys, in two Secrets or two destinations differ; all else repeats."""
    obj = secret(one="YQ==", two="YQ==")
    first = secret_redaction.redact_object(obj, MINE, SALT)["data"]
    assert first["one"] != first["two"]
    assert secret_redaction.redact_object(obj, MINE, SALT)["data"] == first
    assert (
        secret_redaction.redact_object(secret(one="Yg=="), MINE, SALT)["data"]["one"]
        != first["one"]
    )
    elsewhere = Identity(SECRETS, "shop", "other")
    assert secret_redaction.redact_object(obj, elsewhere, SALT)["data"]["one"] != first["one"]
    salt = secret_redaction.derive_destination_salt(SALT, "shop/other")
    assert secret_redaction.redact_object(obj, MINE, salt)["data"]["one"] != first["one"]


@pytest.mark.scenario("A51")
def test_no_plaintext_in_the_file_of_a_real_secret() -> None:
    """Neither the values nor their decoded forms are in the emitted bytes."""
    obj = live("secrets")
    file = yaml_emitter.emit(
        secret_redaction.redact_object(sanitize.sanitize_object(obj), MINE, SALT)
    )
    for value in obj["data"].values():
        assert value.encode() not in file
    assert base64.b64decode(obj["data"]["password"]) not in file


@pytest.mark.scenario("A48")
def test_placeholder_is_no_base64() -> None:
    """The API server cannot decode it, so the file cannot be applied."""
    value = secret_redaction.redact_object(secret(a="YQ=="), MINE, SALT)["data"]["a"]
    with pytest.raises(binascii.Error):
        base64.b64decode(value, validate=True)


def test_sensitive_kinds_lose_every_value_outside_metadata() -> None:
    """Structure stays; texts, numbers and booleans at any depth are replaced, each by its own."""
    identity = Identity(GVR("example.org", "v1", "vaults"), "", "v")
    obj = {
        "apiVersion": "example.org/v1",
        "kind": "Vault",
        "metadata": {"name": "v"},
        "spec": {"items": ["x", "x", 3, True, None], "deep": {"token": "x"}},
        "note": "x",
    }
    redacted = secret_redaction.redact_object(obj, identity, SALT)
    assert (redacted["apiVersion"], redacted["kind"]) == ("example.org/v1", "Vault")
    *items, nothing = redacted["spec"]["items"]
    assert nothing is None
    texts = {*items, redacted["spec"]["deep"]["token"], redacted["note"]}
    assert len(texts) == 6
    assert all(SHAPE.fullmatch(text) for text in texts)


def annotated(annotations: dict[str, str], **data: str) -> dict[str, Any]:
    """A cleaned Secret with annotations."""
    obj = secret(**data)
    obj["metadata"]["annotations"] = annotations
    return obj


@pytest.mark.scenario("A56")
@pytest.mark.parametrize(
    ("key", "value", "readable"),
    [
        ("kapp.k14s.io/original", "{}", False),
        ("objectset.rio.cattle.io/applied", "H4sIAAAAAAAA", False),
        ("example.org/note", "x", False),
        ("note", "x", False),
        ("meta.helm.sh/release-name", "web", True),
        ("meta.helm.sh/release-name", "x" * 256, True),
        ("meta.helm.sh/release-name", "x" * 257, False),
        ("meta.helm.sh/release-name", "\u00e9" * 129, False),
        ("argocd.argoproj.io/sync-wave", "1", True),
        ("kustomize.fluxcd.io/x", "x", True),
        ("a.b.fluxcd.io/x", "x", True),
        ("fluxcd.io/x", "x", False),
        ("evilfluxcd.io/x", "x", False),
        ("example.org/.fluxcd.io/x", "x", False),
        ("cert-manager.io/issuer-name", "ca", True),
        ("xcert-manager.io/issuer-name", "ca", False),
        ("x.cert-manager.io/issuer-name", "ca", False),
    ],
)
def test_annotations_are_redacted_but_short_ones_of_known_owners(
    key: str, value: str, readable: bool
) -> None:
    """Only the prefix and the length count; what a value looks like says nothing."""
    shown = secret_redaction.redact_object(annotated({key: value}, a="YQ=="), MINE, SALT)
    shown_value = shown["metadata"]["annotations"][key]
    assert (shown_value == value) is readable
    assert readable or SHAPE.fullmatch(shown_value)


def test_annotations_of_sensitive_kinds_are_redacted() -> None:
    """A custom kind that holds secrets is copied into annotations like any other."""
    identity = Identity(GVR("example.org", "v1", "vaults"), "", "v")
    metadata = {"name": "v", "labels": {"a": "b"}, "annotations": {"example.org/copy": "x"}}
    obj = {"apiVersion": "example.org/v1", "kind": "Vault", "metadata": metadata}
    shown = secret_redaction.redact_object(obj, identity, SALT)["metadata"]
    assert SHAPE.fullmatch(shown["annotations"]["example.org/copy"])
    assert {key: shown[key] for key in ("name", "labels")} == {"name": "v", "labels": {"a": "b"}}


def test_a_setting_adds_readable_prefixes() -> None:
    """What an administrator allows stays, below its own prefix alone."""
    obj = annotated({"a.example.org/x-1": "x", "a.example.org/y": "y"}, a="YQ==")
    shown = secret_redaction.redact_object(obj, MINE, SALT, ("*.example.org/x",))["metadata"][
        "annotations"
    ]
    assert shown["a.example.org/x-1"] == "x"
    assert SHAPE.fullmatch(shown["a.example.org/y"])


@pytest.mark.scenario("A48")
@pytest.mark.parametrize("data", [{}, {"data": None}, {"data": {}}])
def test_redacted_annotations_alone_keep_a_secret_from_being_applied(data: dict[str, Any]) -> None:
    """Without data a key is added whose value is no base64; nothing redacted adds nothing."""
    obj = annotated({"example.org/note": "x"})
    del obj["data"]
    shown = secret_redaction.redact_object({**obj, **data}, MINE, SALT)
    assert SHAPE.fullmatch(shown["data"][secret_redaction.PLACEHOLDER_KEY])
    plain = annotated({"cert-manager.io/issuer-name": "ca"})
    del plain["data"]
    assert secret_redaction.redact_object({**plain, **data}, MINE, SALT) == {**plain, **data}


def test_a_file_that_shows_what_is_redacted_now_reveals_it() -> None:
    """Plain annotations and numbers reveal; a new value, a new key or a gone one do not."""
    obj = annotated({"example.org/note": "x"}, a="YQ==")
    now = secret_redaction.redact_object(obj, MINE, SALT)
    earlier = {**now, "metadata": obj["metadata"]}
    assert secret_redaction.reveals_plaintext(earlier, now)
    assert not secret_redaction.reveals_plaintext(now, now)
    assert not secret_redaction.reveals_plaintext(
        secret_redaction.redact_object(secret(a="Yg=="), MINE, SALT), now
    )
    assert not secret_redaction.reveals_plaintext(
        now, secret_redaction.redact_object(secret(a="Yg=="), MINE, SALT)
    )
    assert secret_redaction.reveals_plaintext(
        {"spec": {"pins": [1]}}, {"spec": {"pins": [now["data"]["a"]]}}
    )
    assert not secret_redaction.reveals_plaintext(None, now)


@pytest.mark.scenario("A56")
def test_uncleaned_object_is_refused() -> None:
    """The copy kubectl keeps in an annotation would carry the plaintext into Git."""
    with pytest.raises(ValueError, match="cleaned"):
        secret_redaction.redact_object(live("secrets"), MINE, SALT)


@pytest.mark.parametrize(
    ("gvr", "sensitive"),
    [
        (SECRETS, True),
        (GVR("", "v1", "configmaps"), False),
        (GVR("example.org", "v1", "secrets"), False),
        (GVR("example.org", "v2", "vaults"), True),
        (GVR("", "v1", "vaults"), False),
        (GVR("", "v1", "tokens"), True),
        (GVR("example.com", "v1", "tokens"), True),
        (GVR("", "v1", "keys"), True),
        (GVR("example.com", "v1", "keys"), False),
    ],
)
def test_sensitive_types(gvr: GVR, sensitive: bool) -> None:
    """Core Secrets always; others by group and resource, or by the plural in every group."""
    named = frozenset(["example.org/vaults", "tokens", "core/keys"])
    assert secret_redaction.is_sensitive(gvr, named) is sensitive


def test_each_purpose_has_its_own_salt() -> None:
    """No derived key is another, and none is the salt."""
    keys = {
        SALT,
        secret_redaction.derive_destination_salt(SALT, "a/b"),
        secret_redaction.derive_destination_salt(SALT, "a/c"),
        secret_redaction.derive_destination_salt(SALT, ""),
        secret_redaction.derive_digest_key(SALT),
    }
    assert len(keys) == 5
    assert len(secret_redaction.derive_digest_key(SALT)) <= 64
