"""A setting means the same whichever source it comes from."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from windlass.app import settings_forms as forms
from windlass.app import settings_pairs as pairs
from windlass.app import settings_sources as sources
from windlass.app.settings import TABLE, Settings
from windlass.app.settings_forms import Address
from windlass.base.errors import Fatal


def values(form: Any) -> st.SearchStrategy[Any]:
    """Values that a form can hold."""
    return _values_by_form[type(form)](form)


def _durations(form: forms.Duration) -> st.SearchStrategy[float]:
    least = max(1, round(form.least * 1000))
    long = st.integers(least, 10**10).map(lambda millis: float(f"{millis // 1000}"))
    allowed = long.filter(lambda seconds: seconds >= form.least)
    return st.one_of(st.just(0.0), allowed) if form.or_off else allowed


def _addresses(_: forms.Listen) -> st.SearchStrategy[Address]:
    hosts = st.one_of(st.sampled_from(["", "localhost"]), st.ip_addresses().map(str))
    return st.builds(Address, hosts, st.integers(0, 65535))


def _paths(_: forms.Directory) -> st.SearchStrategy[Path]:
    parts = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="/\0")), max_size=3)
    # Texts around a value are trimmed, so a path with blanks at its end is not expressible.
    return parts.map(lambda names: Path("/", *names)).filter(lambda p: str(p) == str(p).strip())


_values_by_form: dict[type, Any] = {
    forms.Bool: lambda _: st.booleans(),
    forms.Int: lambda form: st.integers(form.least, form.most),
    forms.Duration: _durations,
    forms.Choice: lambda form: st.sampled_from(form.words),
    forms.Text: lambda form: st.from_regex(form.pattern, fullmatch=True),
    forms.Directory: _paths,
    forms.Listen: _addresses,
    forms.Several: lambda form: st.lists(values(form.item), max_size=3).map(tuple),
    forms.Commas: lambda form: st.lists(
        values(form.item), min_size=int(form.needs_one), max_size=3
    ).map(tuple),
    pairs.Pairs: lambda form: st.lists(
        st.from_regex(form.pattern, fullmatch=True).map(lambda text: tuple(text.split("=", 1))),
        max_size=3,
        unique_by=lambda pair: pair[0],
    ).map(tuple),
}

anything = st.fixed_dictionaries({line.attribute: values(line.form) for line in TABLE}).map(
    lambda chosen: Settings(**chosen)
)


def as_given(flags: list[str]) -> dict[str, Any]:
    """Flags as a command line would hand them over."""
    repeated = {line.name for line in TABLE if line.repeated}
    found: dict[str, Any] = {}
    for flag in flags:
        name, equals, text = flag.removeprefix("--").partition("=")
        if not equals:
            found[name.removeprefix("no-")] = "false" if name.startswith("no-") else "true"
        elif name in repeated:
            found.setdefault(name, []).append(text)
        else:
            found[name] = text
    return found


@hypothesis.settings(max_examples=30)
@given(anything)
def test_every_source_gives_the_same_settings(settings: Settings) -> None:
    """Settings written as flags, as variables, as a file are read back unchanged."""
    flags, environment = as_given(sources.as_flags(settings)), sources.as_environment(settings)
    text = sources.as_file(settings)
    assert sources.resolve_texts(flags=flags, environment={}) == settings
    assert sources.resolve_texts(flags={}, environment=environment) == settings
    assert sources.resolve_texts(flags={}, environment={}, text=text) == settings


@hypothesis.settings(max_examples=20)
@given(anything, anything, anything)
def test_higher_sources_hide_lower_ones(flag: Settings, variable: Settings, file: Settings) -> None:
    """With all sources given, variables hide the whole file, and flags what they name."""
    resolved = sources.resolve_texts(
        flags=as_given(sources.as_flags(flag)),
        environment=sources.as_environment(variable),
        text=sources.as_file(file),
    )
    for line in TABLE:
        wanted = getattr(flag, line.attribute)
        # A list cannot be emptied by a flag that is not there.
        if line.repeated and not wanted:
            wanted = getattr(variable, line.attribute)
        assert getattr(resolved, line.attribute) == wanted


@given(st.text(), st.dictionaries(st.sampled_from([line.variable for line in TABLE]), st.text()))
def test_rubbish_is_refused_in_words(text: str, environment: dict[str, str]) -> None:
    """Whatever stands in a file or a variable, it is understood or explained."""
    understood = None
    with contextlib.suppress(Fatal):
        understood = sources.resolve_texts(flags={}, environment=environment, text=text)
    assert understood is None or isinstance(understood, Settings)
