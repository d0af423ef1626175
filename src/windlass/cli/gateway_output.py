"""Messages of `windlass gateway`, in terms of command-line flags.

The engine's messages name annotations and fields of an IgnitionSync, because in a cluster those
are what a person sets; here they are replaced by flags. Plans as JSON keep the engine's words:
they are equal wherever they are made.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from windlass.base.errors import WindlassError
from windlass.gateways.volume.completion import TransactionEnd
from windlass.gateways.volume.journal import TransactionRecord
from windlass.gateways.wire.routing import ANNOTATION_PREFIX

_FLAGS = "service-path|profile|gateway-name|deployment-mode|tag-provider"
_ANNOTATION = re.escape(ANNOTATION_PREFIX)

# From the special to the general: the first that fits wins.
_REPLACEMENTS = (
    (rf'annotate with {_ANNOTATION}allow-mass-delete="([0-9a-f]+)"', r"add --allow-mass-delete=\1"),
    (rf"{_ANNOTATION}exclude-patterns", "--exclude"),
    (rf"{_ANNOTATION}({_FLAGS})\b", r"--\1"),
    (rf"{_ANNOTATION}([a-z-]+)", r"--annotation \1"),
    (r"; use system-name-template", "; use --annotation system-name-template=TEMPLATE"),
    (r"gateway\.apiKeySecretRef", "--token-file"),
    (r"while gateway\.tls is false", "while --scan uses http"),
    (r"set gateway\.port to ([0-9]+) and gateway\.tls to true", r"use --scan=https://127.0.0.1:\1"),
    (r"set gateway\.port to ([0-9]+) and gateway\.tls to false", r"use --scan=http://127.0.0.1:\1"),
    (r"set gateway\.port and gateway\.tls to where it leads", "set --scan to where it leads"),
)
_PATTERNS = tuple((re.compile(pattern), replacement) for pattern, replacement in _REPLACEMENTS)


def with_flags(text: str) -> str:
    """`text` of the engine with flags in the place of annotations and fields."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


@contextlib.contextmanager
def errors_with_flags() -> Iterator[None]:
    """Errors that leave the block name flags."""
    try:
        yield
    except WindlassError as error:
        raise WindlassError(error.reason, with_flags(error.message)) from error


def interrupted_note(record: TransactionRecord) -> str:
    """The note of a plan about an interrupted apply."""
    return (
        f"{_apply_name(record)} was interrupted; the next apply or rollback completes or undoes "
        "it first"
    )


def resumed_note(ended: TransactionEnd) -> str:
    """The note of an apply about an interrupted one that it has completed or undone."""
    what = "completed" if ended.tree == "new" else "undone"
    return f"{_apply_name(ended.record)} was interrupted and has been {what}"


def _apply_name(record: TransactionRecord) -> str:
    return f"the apply of {record.to_commit[:7] or 'the state before the first sync'}"
