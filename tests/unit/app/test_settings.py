"""The table of settings, its value forms, its reference."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from windlass.api.kinds.project_limits import PodSecurity, Quota
from windlass.app import settings as table
from windlass.app import settings_forms as forms
from windlass.app.settings import Settings
from windlass.app.settings_forms import ListenAddress


def test_defaults_are_those_of_the_documentation() -> None:
    """Omitted settings have their documented values, with their types."""
    settings = Settings()
    assert settings.discovery_refresh == 300.0
    assert settings.git_fetch_timeout == 300.0
    assert settings.work_dir == Path("/var/cache/gitops-reverser")
    assert settings.webhook_bind_address == ListenAddress("0.0.0.0", 9443)  # noqa: S104
    assert settings.metrics_bind_address == ListenAddress("", 8080)
    assert settings.discovery_exclude == ()
    assert settings.leader_elect is True


def test_settings_cannot_be_changed() -> None:
    """Resolved settings are one frozen value."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().page_size = 1  # type: ignore[misc]


def test_names_of_all_sources_come_from_the_field() -> None:
    """Flag, variable, key are the field's name in three spellings."""
    line = next(line for line in table.TABLE if line.attribute == "discovery_refresh")
    assert (line.name, line.flag) == ("discovery-refresh", "--discovery-refresh")
    assert line.variable == "WINDLASS_DISCOVERY_REFRESH"


@pytest.mark.parametrize("line", table.TABLE, ids=lambda line: line.name)
def test_every_line_is_complete(line: table.Setting) -> None:
    """Every setting has a sentence, an expectation, a default that is parsed to itself."""
    assert line.help.endswith(".")
    assert line.form.expected
    assert line.form.read(line.form.write(line.default)) == line.default
    assert not {"secret", "password", "token"} & set(line.name.split("-"))


def test_reference_has_a_row_for_every_setting() -> None:
    """The Markdown table names each flag, variable, default once."""
    rows = table.reference_table().splitlines()[2:]
    assert len(rows) == len(table.TABLE)
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)
    start = "| `--discovery-refresh` | `WINDLASS_DISCOVERY_REFRESH` | `5m` |"
    assert sum(row.startswith(start) for row in rows) == 1


def test_a_quota_is_named_as_the_api_names_it() -> None:
    """The names are declared twice, so that reading settings needs no API; they are equal."""
    names = [field.encode_name for field in msgspec.structs.fields(Quota)]
    assert sorted(names) == sorted((*forms.QUOTA_AMOUNTS, *forms.QUOTA_COUNTS))
    assert get_args(table.PodSecurity) == get_args(PodSecurity)


def reads(form: Any, text: str) -> bool:
    """Whether a form accepts this text."""
    try:
        form.read(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (forms.Bool(), "True", True),
        (forms.Int(0, 10), "010", 10),
        (forms.Duration(), "1h30m", 5400.0),
        (forms.Duration(or_off=True), "0", 0.0),
        (forms.Duration(or_off=True), "0s", 0.0),
        (forms.Duration(0.001), "250ms", 0.25),
        (forms.Listen(), "[::1]:80", ListenAddress("::1", 80)),
        (forms.Listen(), "localhost:0", ListenAddress("localhost", 0)),
        (forms.Several(forms.RESOURCE), "events, apps/deployments", ("events", "apps/deployments")),
        (forms.Several(forms.LABEL), " ", ()),
        (forms.HOST, "git.example.org:3000", "git.example.org:3000"),
        (forms.OPTIONAL_OBJECT_NAME, "kata.v2", "kata.v2"),
        (forms.QUOTA_PAIRS, "cpu=1500m, pods=5", (("cpu", "1500m"), ("pods", "5"))),
        (forms.LABEL_PAIRS, "example.org/pool=a_b,x=", (("example.org/pool", "a_b"), ("x", ""))),
        (forms.Directory(), "/a/../b", Path("/a/../b")),
    ],
)
def test_good_values_are_read(form: Any, text: str, value: Any) -> None:
    """Each form accepts what its expectation promises."""
    assert form.read(text) == value


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (forms.Bool(), "yes"),
        (forms.Bool(), ""),
        (forms.Int(1, 10), "11"),
        (forms.Int(1, 10), "0"),
        (forms.Int(1, 10), "1.5"),
        (forms.Int(1, 10), "1_0"),
        (forms.Int(1, 10), "٣"),
        (forms.Int(1, 10), "9" * 5000),
        (forms.Duration(), "60"),
        (forms.Duration(), "0"),
        (forms.Duration(or_off=True), "500ms"),
        (forms.OneOf(("auto", "text")), "Auto"),
        (forms.Listen(), "8080"),
        (forms.Listen(), ":99999"),
        (forms.Listen(), "::1:80"),
        (forms.Several(forms.RESOURCE), "events,,pods"),
        (forms.RESOURCE, "Events"),
        (forms.LABEL, "a" * 64),
        (forms.LABEL, "a\n"),
        (forms.HOST, "https://git.example.org"),
        (forms.OPTIONAL_OBJECT_NAME, "Kata"),
        (forms.QUOTA_PAIRS, "cpu"),
        (forms.QUOTA_PAIRS, "cpu=0"),
        (forms.QUOTA_PAIRS, "cpu=1,cpu=2"),
        (forms.QUOTA_PAIRS, "pods=1500m"),
        (forms.QUOTA_PAIRS, "gpu=1"),
        (forms.LABEL_PAIRS, "pool"),
        (forms.LABEL_PAIRS, "/x=y"),
        (forms.Directory(), "relative"),
        (forms.Directory(), "/a\0b"),
    ],
)
def test_bad_values_are_refused(form: Any, text: str) -> None:
    """Each form refuses what lies outside its expectation."""
    assert not reads(form, text)
