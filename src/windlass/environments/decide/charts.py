"""What helm made of a chart, as a list of objects.

helm writes every document behind a line that names its template; messages name that file.
A line `---` always ends a document, whatever stands in it, so texts are cut there.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from dataclasses import dataclass

from windlass.environments.decide import hooks, manifests
from windlass.environments.decide.manifests import Manifest, RenderRefused

_NAMELESS = "chart"
_MOST_CHARS = 256
_DOCUMENT = re.compile(rb"^---[ \t]*\r?$\n?", re.MULTILINE)
_SOURCE = re.compile(rb"\A(?:[ \t]*\r?\n)*# Source: ([^\r\n]+)")


@dataclass(frozen=True, slots=True)
class Chart:
    """The objects of a chart, and what is not made of it."""

    manifests: tuple[Manifest, ...]
    left_out: tuple[str, ...] = ()


def documents(output: bytes) -> list[Manifest]:
    """All objects that `helm template` printed; RenderRefused says why there are none."""
    found = _by_template(output)
    if not found:
        raise RenderRefused(
            "RenderFailed", "the chart makes no object with these values; check them"
        )
    return manifests.objects(found)


def legible(output: bytes) -> list[Manifest]:
    """The objects of an output that was applied before, as far as they can still be read.

    It was read by the rules of its time; one template that is refused today must not cost
    the passwords in all others.
    """
    found: list[Manifest] = []
    for name, text in _by_template(output).items():
        with contextlib.suppress(RenderRefused):
            found += manifests.objects({name: text})
    return found


def read(output: bytes) -> Chart:
    """The objects of a chart as they are applied; RenderRefused says why there are none."""
    kept: list[Manifest] = []
    left_out: list[str] = []
    for written in documents(output):
        left_out.extend(hooks.unserved(written.object))
        if not hooks.is_left_out(written.object):
            kept.append(Manifest(written.object, written.file, hooks.of(written.object)))
    if not kept:
        raise RenderRefused("RenderFailed", "the chart makes nothing but hooks that do not run")
    return Chart(tuple(kept), tuple(left_out))


def _by_template(output: bytes) -> dict[str, bytes]:
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    for document in _DOCUMENT.split(output):
        if not _is_silent(document):
            found[_template(document)].append(document)
    return {name: b"\n---\n".join(documents) for name, documents in found.items()}


def _is_silent(document: bytes) -> bool:
    """Whether nothing but comments stands in it: a template whose values turn it off."""
    lines = (line.lstrip() for line in document.splitlines())
    return all(not line or line.startswith(b"#") for line in lines)


def _template(document: bytes) -> str:
    named = _SOURCE.match(document)
    return named[1].decode("utf-8", "replace")[:_MOST_CHARS] if named else _NAMELESS
