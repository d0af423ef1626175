"""A setting means the same whichever source it comes from."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from ipaddress import ip_address
from math import ceil
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from tests.support.processes import written_settings
from tests.support.strategies.batched import choices, row
from tests.support.strategies.matching_texts import matching_texts
from windlass.app import settings_forms as forms
from windlass.app import settings_sources as sources
from windlass.app.settings import TABLE, Settings
from windlass.app.settings_forms import ListenAddress
from windlass.base.errors import Fatal


class Near(Sequence[int]):
    """The numbers between two, small steps from the first as likely as large ones."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.count = first, last - first + 1

    def __len__(self) -> int:
        return 32 * self.count

    def __getitem__(self, source: Any) -> int:
        return self.first + (source // 32 >> source % 32)


def column(form: Any) -> Sequence[Any] | None:
    """All values of a form of which every value is a choice."""
    if isinstance(form, forms.Bool):
        return (False, True)
    if isinstance(form, forms.OneOf):
        return form.words
    if isinstance(form, forms.Cidr):
        return ("10.0.0.0/8", "192.0.2.1/32", "::/0", "fd00:ec2::/32")
    if isinstance(form, forms.Ip):
        return ("127.0.0.1", "192.0.2.1", "::1", "fd00::2")
    if isinstance(form, forms.Int):
        return Near(form.least, form.most)
    if isinstance(form, forms.Duration):
        return Near(0 if form.or_off else ceil(form.least), 10**7)
    return None


def _addresses(_: forms.Listen) -> st.SearchStrategy[ListenAddress]:
    kinds, byte = ["", "localhost", 4, 16], range(256)
    return row(kinds, range(65536), *[byte] * 16).map(
        lambda drawn: ListenAddress(
            str(ip_address(bytes(drawn[2 : 2 + drawn[0]])))
            if isinstance(drawn[0], int)
            else drawn[0],
            drawn[1],
        )
    )


def _paths(_: forms.Directory) -> st.SearchStrategy[Path]:
    names = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
    # Texts around a value are trimmed, so a path with blanks at its end is not expressible.
    return names.map(lambda text: Path(str(Path("/", *text.split("/"))).strip()))


def _texts(form: forms.Text) -> st.SearchStrategy[str]:
    def trimmed(texts: list[str]) -> str:
        """As for paths: blanks around the name of a program are not expressible."""
        text = texts[0].strip()
        return text if re.fullmatch(form.pattern, text) else f"{text}a"

    return matching_texts(form.pattern).map(trimmed)


def _several(form: forms.Several[Any] | forms.Commas[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    least = int(getattr(form, "needs_one", False))
    if isinstance(form.item, forms.Text):
        return matching_texts(form.item.pattern, min_size=least, max_size=3).map(tuple)
    return choices(column(form.item) or (), min_size=least, max_size=3).map(tuple)


_values_by_form: dict[type, Any] = {
    forms.Text: _texts,
    forms.Directory: _paths,
    forms.Listen: _addresses,
    forms.Several: _several,
    forms.Commas: _several,
    forms.Pairs: lambda form: matching_texts(form.pattern, min_size=0, max_size=3).map(
        lambda texts: tuple(dict(text.split("=", 1) for text in texts).items())
    ),
}

LEASE = ("leader_elect_retry_period", "leader_elect_renew_deadline", "leader_elect_lease_duration")


def _lease_terms(drawn: dict[str, Any]) -> dict[str, Any]:
    """The three terms of a lease in the order that is not refused, each longer than the last."""
    terms = sorted(drawn[name] for name in LEASE)
    return {name: term + rank for rank, (name, term) in enumerate(zip(LEASE, terms, strict=True))}


CHOSEN = {line.attribute: column(line.form) for line in TABLE}
chosen = row(*filter(None, CHOSEN.values())).map(
    lambda drawn: dict(zip(filter(CHOSEN.get, CHOSEN), drawn, strict=True))
)
others = st.fixed_dictionaries(
    {
        line.attribute: _values_by_form[type(line.form)](line.form)
        for line in TABLE
        if CHOSEN[line.attribute] is None
    }
)
anything = st.builds(
    lambda one, other: Settings(**one | _lease_terms(one), **other), chosen, others
)


def as_given(flags: list[str]) -> dict[str, Any]:
    """Flags as a command line would pass them."""
    repeated = {line.name for line in TABLE if line.repeated}
    actual: dict[str, Any] = {}
    for flag in flags:
        name, equals, text = flag.removeprefix("--").partition("=")
        if not equals:
            actual[name.removeprefix("no-")] = "false" if name.startswith("no-") else "true"
        elif name in repeated:
            actual.setdefault(name, []).append(text)
        else:
            actual[name] = text
    return actual


@hypothesis.settings(max_examples=30)
@given(anything)
def test_every_source_gives_the_same_settings(settings: Settings) -> None:
    """Settings written as flags, as variables, as a file are read back unchanged."""
    flags, environment = (
        as_given(written_settings.as_flags(settings)),
        written_settings.as_environment(settings),
    )
    text = written_settings.as_file(settings)
    assert sources.resolve_texts(flags=flags, environment={}) == settings
    assert sources.resolve_texts(flags={}, environment=environment) == settings
    assert sources.resolve_texts(flags={}, environment={}, text=text) == settings


@hypothesis.settings(max_examples=20)
@given(anything, anything, anything)
def test_higher_sources_hide_lower_ones(flag: Settings, variable: Settings, file: Settings) -> None:
    """With all sources given, variables hide the whole file, and flags what they name."""
    resolved = sources.resolve_texts(
        flags=as_given(written_settings.as_flags(flag)),
        environment=written_settings.as_environment(variable),
        text=written_settings.as_file(file),
    )
    for line in TABLE:
        expected = getattr(flag, line.attribute)
        # A list cannot be emptied by a flag that is not there.
        if line.repeated and not expected:
            expected = getattr(variable, line.attribute)
        assert getattr(resolved, line.attribute) == expected


@given(st.text(), st.dictionaries(st.sampled_from([line.variable for line in TABLE]), st.text()))
def test_invalid_values_are_refused_with_an_explanation(
    text: str, environment: dict[str, str]
) -> None:
    """Any text in a file or a variable is accepted or explained."""
    understood = None
    with contextlib.suppress(Fatal):
        understood = sources.resolve_texts(flags={}, environment=environment, text=text)
    assert understood is None or isinstance(understood, Settings)
