"""A user's own subject line: text with known placeholders, no logic.

A template is one line of at most 200 characters. Values are made one line before they
are put in, and are never read as a template themselves; the result is cut to 200.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from windlass.reverser.decide import author
from windlass.reverser.decide.message import Touched, Trailers

LONGEST = 200
PLACEHOLDERS = frozenset(
    (
        "op",
        "identifier",
        "kind",
        "group",
        "version",
        "resource",
        "namespace",
        "name",
        "user",
        "count",
        "destination",
        "cluster",
    )
)

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def problem(template: str) -> str | None:
    """What is wrong with `template`, or None."""
    if len(template) > LONGEST:
        return f"the template is longer than {LONGEST} characters"
    if author.one_line(template) != template:
        return "the template must be one line without control characters"
    unknown = sorted(set(_PLACEHOLDER.findall(template)) - PLACEHOLDERS)
    if unknown:
        known = ", ".join(sorted(PLACEHOLDERS))
        return f"unknown placeholder {{{unknown[0]}}}; known are {known}"
    if re.search(r"[{}]", _PLACEHOLDER.sub("", template)):
        return "a brace stands alone; placeholders look like {name}"
    return None


def subject(
    template: str, changes: Sequence[Touched], trailers: Trailers, *, kind: str = ""
) -> str:
    """The subject from `template`; of several files, what they do not share is `*`."""
    values = _values(changes, trailers, kind)
    filled = _PLACEHOLDER.sub(lambda found: values.get(found[1], ""), template)
    return author.one_line(filled).strip()[:LONGEST]


def _values(changes: Sequence[Touched], trailers: Trailers, kind: str) -> Mapping[str, str]:
    identities = [change.identity for change in changes]
    return {
        "op": _shared([change.op for change in changes], several="BATCH"),
        "identifier": _shared([identity.identifier for identity in identities]),
        "kind": kind,
        "group": _shared([identity.gvr.group for identity in identities]),
        "version": _shared([identity.gvr.version for identity in identities]),
        "resource": _shared([identity.gvr.resource for identity in identities]),
        "namespace": _shared([identity.namespace for identity in identities]),
        "name": _shared([identity.name for identity in identities]),
        "user": trailers.user,
        "count": str(len(changes)),
        "destination": trailers.destination,
        "cluster": trailers.cluster_uid,
    }


def _shared(texts: Sequence[str], *, several: str = "*") -> str:
    different = set(texts)
    return texts[0] if len(different) == 1 else several
