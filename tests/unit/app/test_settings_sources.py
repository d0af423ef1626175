"""Which source wins, and how a mistake in one is reported."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.app import settings_sources as sources
from windlass.app.settings import Settings
from windlass.base.errors import Fatal
from windlass.base.redaction import process


def resolved(text: str = "", flags: Any = None, **environment: str) -> Settings:
    """The settings from a file's text, flags, variables."""
    return sources.resolve_texts(
        flags=flags or {}, environment=environment, text=text, file_name="windlass.yaml"
    )


def complaint(text: str = "", flags: Any = None, **environment: str) -> str:
    """The error about bad sources."""
    with pytest.raises(Fatal) as caught:
        resolved(text, flags, **environment)
    assert caught.value.reason == "SettingsInvalid"
    return caught.value.message


def test_flag_over_variable_over_file_over_default() -> None:
    """Each source hides the ones below it."""
    text = "page-size: 3\n"
    assert resolved().page_size == 500
    assert resolved(text).page_size == 3
    assert resolved(text, WINDLASS_PAGE_SIZE="2").page_size == 2
    assert resolved(text, {"page-size": "1"}, WINDLASS_PAGE_SIZE="2").page_size == 1


def test_bad_value_is_found_even_when_hidden() -> None:
    """A bad value in a lower source is reported though a flag would win."""
    message = complaint("page-size: many\n", {"page-size": "1"})
    assert message == (
        "windlass.yaml line 1, page-size: invalid value 'many'; expected "
        "a whole number from 1 to 10000"
    )


def test_list_replaces_list() -> None:
    """A list of a higher source replaces the lower one, it does not add to it."""
    text = "discovery-exclude: [events, apps/deployments]\n"
    assert resolved(text).discovery_exclude == ("events", "apps/deployments")
    assert resolved("discovery-exclude: events, pods").discovery_exclude == ("events", "pods")
    assert resolved(text, WINDLASS_DISCOVERY_EXCLUDE="pods").discovery_exclude == ("pods",)
    assert resolved(text, WINDLASS_DISCOVERY_EXCLUDE="").discovery_exclude == ()
    flags = {"discovery-exclude": ["a", "b,c"]}
    assert resolved(text, flags).discovery_exclude == ("a", "b", "c")


def test_words_that_yaml_takes_for_booleans_stay_words() -> None:
    """`off` in the file is the value of the setting, not a YAML boolean."""
    assert resolved("noise-filter: off\n").noise_filter == "off"
    assert resolved("watch-all: true\n").watch_all is True


def test_all_problems_are_reported_together() -> None:
    """Mistakes in three sources, each with its source."""
    message = complaint(
        "a: 1\nlog-level: loud\n", {"page-size": "x"}, WINDLASS_ATTRIBUTION_TTL="soon"
    )
    assert message.splitlines() == [
        "windlass.yaml line 1, a: unknown setting",
        "flag --page-size: invalid value 'x'; expected a whole number from 1 to 10000",
        "variable WINDLASS_ATTRIBUTION_TTL: invalid value 'soon'; expected "
        "a duration like 90s, 5m or 1h30m, at least 1s",
        "windlass.yaml line 2, log-level: invalid value 'loud'; expected "
        "one of debug, info, warning, error",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("discovery-refesh: 5m", "did you mean discovery-refresh?"),
        ("page_size: 5", "did you mean page-size?"),
        ("page-size: 5\npage-size: 6", "line 2, page-size: duplicate setting"),
        ("page-size: {a: 1}", "expected a plain value or a list of plain values"),
        ("discovery-exclude: [[a]]", "expected a plain value or a list of plain values"),
        ("page-size: [1]", "expected one value"),
        ("page-size:", "invalid value ''; expected a whole number"),
        ("- a", "expected a mapping of `setting: value`"),
        ("a: [", "windlass.yaml: invalid YAML near line 1"),
        ("a: 1\n---\nb: 1", "windlass.yaml: invalid YAML near line"),
        ("? [a]\n: 1", "unknown setting"),
        ("page-size: \x00", "windlass.yaml: invalid YAML"),
    ],
)
def test_mistakes_in_the_file_are_explained(text: str, expected: str) -> None:
    """With the line and the remedy."""
    assert expected in complaint(text)


def test_empty_file_changes_nothing() -> None:
    """A file of comments leaves the defaults."""
    assert resolved("# nothing\n") == Settings()


def test_unknown_variable_is_an_error_with_a_suggestion() -> None:
    """A misspelled variable is not ignored."""
    assert complaint(WINDLASS_PAGESIZE="5") == (
        "variable WINDLASS_PAGESIZE: unknown setting; did you mean WINDLASS_PAGE_SIZE?"
    )


def test_unknown_flag_is_an_error_with_a_suggestion() -> None:
    """A flag that is not in the table is refused."""
    assert complaint(flags={"page-siz": "5"}) == (
        "--page-siz: unknown setting; did you mean --page-size?"
    )


def test_other_variables_are_ignored() -> None:
    """Variables of tests, of other programs, of the build are not settings."""
    assert resolved(WINDLASS_FAILPOINTS="", WINDLASS_BINARIES="/x", PATH="/bin") == Settings()


def test_variables_of_services_are_ignored() -> None:
    """Variables that the kubelet sets for a Service called windlass-webhook."""
    links = {
        "WINDLASS_WEBHOOK_SERVICE_HOST": "10.0.0.1",
        "WINDLASS_WEBHOOK_SERVICE_PORT": "443",
        "WINDLASS_WEBHOOK_SERVICE_PORT_HTTPS": "443",
        "WINDLASS_WEBHOOK_PORT": "tcp://10.0.0.1:443",
        "WINDLASS_WEBHOOK_PORT_443_TCP": "tcp://10.0.0.1:443",
        "WINDLASS_WEBHOOK_PORT_443_TCP_ADDR": "10.0.0.1",
    }
    assert resolved(**links) == Settings()
    assert "WINDLASS_WEBHOOK_PORT" in complaint(WINDLASS_WEBHOOK_PORT="443")


def test_known_secret_is_not_repeated() -> None:
    """A credential in a setting is not in the message."""
    process.add("s3cr3t-value")
    try:
        assert "s3cr3t" not in complaint(WINDLASS_LOG_LEVEL="s3cr3t-value")
    finally:
        process.discard("s3cr3t-value")
    assert "hunter2" not in complaint(flags={"git-insecure-hosts": ["https://me:hunter2@host"]})


def test_long_values_are_cut() -> None:
    """A huge value does not flood the message."""
    assert len(complaint(WINDLASS_PAGE_SIZE="x" * 10_000)) < 250
