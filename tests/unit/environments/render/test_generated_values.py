"""Values that a chart generates with every render."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from windlass.environments.render import generated_values, manifests
from windlass.environments.render.generated_values import StableOutput
from windlass.environments.render.manifests import RenderRefused
from windlass.objects import yaml_emitter
from windlass.objects.names import Object

_FILE = "shop/templates/all.yaml"


def _output(*objects: Object, file: str = _FILE) -> bytes:
    return b"".join(f"---\n# Source: {file}\n".encode() + yaml_emitter.emit(obj) for obj in objects)


def _secret(name: str = "db", **values: str) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}


def _map(name: str = "app", **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _workload(name: str = "web", kind: str = "Deployment", **annotations: str) -> Object:
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "a"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"template": template},
    }


def _values(resolved: StableOutput, name: str = "db") -> dict[str, str]:
    """The data of a Secret or ConfigMap, as pods see it."""
    values: dict[str, str] = {}
    for written in manifests.parse_chart_output(resolved.output):
        obj = written.object
        if obj["metadata"]["name"] == name:
            is_secret = obj["kind"] == "Secret"
            for key, text in (obj.get("data") or {}).items():
                values[key] = base64.b64decode(text).decode() if is_secret else text
            values |= obj.get("stringData") or {}
    return values


def _sums(resolved: StableOutput, name: str = "web") -> dict[str, str]:
    rows = (written.object for written in manifests.parse_chart_output(resolved.output))
    (obj,) = (row for row in rows if row["metadata"]["name"] == name and "spec" in row)
    annotations: dict[str, str] = obj["spec"]["template"]["metadata"]["annotations"]
    return annotations


def test_without_differences_the_output_is_that_of_helm() -> None:
    """Not a byte is changed, and nothing is listed."""
    output = b"---\n# Source: a/b.yaml\nkind: X # as it was\n"
    assert generated_values.stabilize(output, output, b"") == StableOutput(output)


def test_keys_of_a_secret_keep_the_stored_value() -> None:
    """In either encoding; values equal in both renders are new, and so is a new key."""
    kept = _output(_secret(password="kept-password", user="a", gone="x"))
    first = _output(_secret(password="first-password", user="b", extra="first-extra"))
    second = _output(_secret(password="other-password", user="b", extra="other-extra"))
    resolved = generated_values.stabilize(first, second, kept)
    assert _values(resolved) == {"password": "kept-password", "user": "b", "extra": "first-extra"}
    assert resolved.notes == ()
    encoded = base64.b64encode(b"third-password").decode()
    moved = {**_secret(), "data": {"password": encoded}, "stringData": {"user": "b"}}
    other = {**moved, "data": {"password": base64.b64encode(b"4").decode()}}
    later = generated_values.stabilize(_output(moved), _output(other), resolved.output)
    assert _values(later) == {"password": "kept-password", "user": "b"}


def test_texts_around_a_generated_value_are_those_of_the_chart() -> None:
    """A URL has the kept password and the new host, in Secrets and elsewhere, also as base64."""

    def output(password: str, host: str) -> bytes:
        url = f"postgres://app:{password}@{host}/app"
        encoded = base64.b64encode(password.encode()).decode()
        return _output(
            _secret(password=password, url=url), _map(jdbc=f"{url}?twice={password}", b64=encoded)
        )

    kept = output("kept-password", "old")
    resolved = generated_values.stabilize(
        output("first-password", "new"), output("other-password", "new"), kept
    )
    assert _values(resolved)["url"] == "postgres://app:kept-password@new/app"
    assert _values(resolved, "app") == {
        "jdbc": "postgres://app:kept-password@new/app?twice=kept-password",
        "b64": base64.b64encode(b"kept-password").decode(),
    }
    assert resolved.notes == ()


def test_a_new_key_does_not_replace_a_value_inside_a_stored_text() -> None:
    """The URL existed before the password had a key of its own, and stays valid."""
    kept = _output(_secret(url="postgres://app:kept-password@db"))
    first, second = (
        _output(_secret(password=f"{word}-password", url=f"postgres://app:{word}-password@db"))
        for word in ("first", "other")
    )
    resolved = generated_values.stabilize(first, second, kept)
    assert _values(resolved)["url"] == "postgres://app:kept-password@db"


def test_one_value_in_two_secrets_stays_in_each() -> None:
    """And a third Secret that is new gets the value of the others."""

    def output(word: str, *names: str) -> bytes:
        return _output(*(_secret(name, password=f"{word}-password") for name in names))

    kept = output("kept", "a", "b")
    resolved = generated_values.stabilize(
        output("first", "a", "b", "c"), output("other", "a", "b", "c"), kept
    )
    assert [_values(resolved, name)["password"] for name in "abc"] == ["kept-password"] * 3


def test_a_change_around_a_value_that_has_no_key_of_its_own_is_listed() -> None:
    """The stored text stays whole; only a change of its rest is listed."""

    def output(word: str, rule: str) -> bytes:
        return _output(_secret(acl=f"user default on >{word} {rule}"))

    kept = output("kept1", "+@all")
    same = generated_values.stabilize(output("first1", "+@all"), output("other1", "+@all"), kept)
    assert (_values(same)["acl"], same.notes) == ("user default on >kept1 +@all", ())
    new = generated_values.stabilize(output("first1", "+@read"), output("other1", "+@read"), kept)
    assert _values(new)["acl"] == "user default on >kept1 +@all"
    (note,) = new.notes
    assert note.startswith("Secret/db key acl keeps its value")


def test_checksums_follow_the_final_content() -> None:
    """The same configuration keeps them, also those of helm; another one changes them."""

    def output(word: str, color: str = "blue") -> bytes:
        sums = {"checksum/secret": word[0] * 64, "checksum/short": word[0] * 10, "plain": "x"}
        return _output(_secret(password=f"{word}-password"), _map(color=color), _workload(**sums))

    helms = output("kept")
    resolved = generated_values.stabilize(output("first"), output("other"), helms)
    assert _sums(resolved) == {
        "checksum/secret": "k" * 64,
        "checksum/short": "k" * 10,
        "plain": "x",
    }
    changed = generated_values.stabilize(
        output("first", "red"), output("other", "red"), resolved.output
    )
    assert _sums(changed)["checksum/secret"] != "k" * 64
    assert len(_sums(changed)["checksum/short"]) == 10
    again = generated_values.stabilize(output("a", "red"), output("b", "red"), changed.output)
    assert _sums(again) == _sums(changed)
    assert again.notes == ()


def test_a_checksum_covers_what_pods_name_and_what_their_chart_generates() -> None:
    """Nothing else of the chart restarts them, and nothing of other charts."""

    def output(word: str, **values: str) -> bytes:
        names = ("beside", "named", "other", "far")
        beside, named, other, far = (_map(name, value=values.get(name, "a")) for name in names)
        web = _workload(**{"checksum/secret": word[0] * 64})
        env = {"configMapRef": {"name": "named"}}
        web["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [env]
        return (
            _output(_secret(password=f"{word}-password"), beside)
            + _output(named, web, file="shop/templates/web.yaml")
            + _output(other, file="shop/templates/other.yaml")
            + _output(_secret("far", key=f"{word}-key"), far, file="shop/charts/a/templates/b.yaml")
        )

    def resolved(kept: bytes, **values: str) -> StableOutput:
        return generated_values.stabilize(
            output("first", **values), output("other", **values), kept
        )

    start = resolved(b"")
    for name, restarts in (("beside", True), ("named", True), ("other", False), ("far", False)):
        assert (_sums(resolved(start.output, **{name: "new"})) != _sums(start)) is restarts


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (_map(token="a" * 64), _map(token="b" * 64), "ConfigMap/app data.token is generated"),
        (_map("a-1"), _map("a-2"), "ConfigMap/a-1 has a generated name"),
        (_map(a="1"), _map(b="1"), "ConfigMap/app data is generated"),
        (_workload(rollme="x1"), _workload(rollme="y2"), "annotations.rollme is generated"),
        (_secret(a="1"), _secret(b="1"), "Secret/db data is generated"),
        (
            {**_secret(), "metadata": {"name": "db", "labels": {"at": "1"}}},
            {**_secret(), "metadata": {"name": "db", "labels": {"at": "2"}}},
            "Secret/db metadata.labels.at is generated",
        ),
        ({**_map(), "data": {"a": 1}}, {**_map(), "data": {"a": 2}}, "data.a is generated"),
        ({**_map(), "x": [1, {"y": 2}]}, {**_map(), "x": [1, {"y": 3}]}, "x[1].y is generated"),
    ],
)
def test_other_generated_values_are_listed(first: Any, second: Any, message: str) -> None:
    """They are as rendered first, and the note contains no value."""
    resolved = generated_values.stabilize(_output(first), _output(second), b"")
    assert [written.object for written in manifests.parse_chart_output(resolved.output)] == [first]
    assert len(resolved.notes) == 1
    assert message in resolved.notes[0]
    assert "a" * 64 not in resolved.notes[0]


def test_the_list_has_an_end() -> None:
    """However much a chart generates."""
    first, second = (_map(**{f"k{at}": f"{word}{at}" for at in range(99)}) for word in "ab")
    resolved = generated_values.stabilize(_output(first), _output(second), b"")
    assert len(resolved.notes) == 21
    assert resolved.notes[-1].startswith("and 79 more generated values")


def test_the_growth_by_a_stored_value_is_bounded() -> None:
    """A long value that a chart repeats is not inserted everywhere."""
    kept = _output(_secret(password="k" * 500_000))
    first, second = (_output(_secret(password=word * 8), _map(text=word * 80_000)) for word in "ab")
    resolved = generated_values.stabilize(first, second, kept)
    assert _values(resolved, "app")["text"] == "a" * 80_000
    assert "ConfigMap/app data.text" in resolved.notes[0]


def test_unreadable_output_is_refused_or_ignored() -> None:
    """A render is refused; an unreadable stored template loses only its own values."""
    good = _output(_secret(password="kept-password"))
    with pytest.raises(RenderRefused):
        generated_values.stabilize(good, b"---\n# Source: a/b.yaml\n{", b"")
    broken = b"---\n# Source: a/b.yaml\n{\n" + good
    first, second = (_output(_secret(password=f"{word}-password")) for word in ("a", "b"))
    resolved = generated_values.stabilize(first, second, broken)
    assert _values(resolved) == {"password": "kept-password"}


def test_an_invalid_shape_is_left_to_the_validation() -> None:
    """Neither data that is no map nor a value that is no base64 ends the comparison."""
    first, second = ({**_secret(a=f"{word}-password"), "data": [word]} for word in "ab")
    (manifest,) = manifests.parse_chart_output(
        generated_values.stabilize(_output(first), _output(second), b"").output
    )
    assert manifest.object == first
    first, second = ({**_secret(), "data": {"a": "%", "b": word}} for word in "ab")
    (manifest,) = manifests.parse_chart_output(
        generated_values.stabilize(_output(first), _output(second), b"").output
    )
    assert manifest.object == first
