"""The claim file: which destination of which cluster a folder belongs to.

| Claim found in the folder                            | Verdict  |
|------------------------------------------------------|----------|
| none                                                 | Absent   |
| this cluster, this destination                       | Ours     |
| this cluster, a destination that no longer exists    | TakeOver |
| any other holder, named by the take-over annotation  | TakeOver |
| any other holder                                     | Foreign  |

`existing_destinations` must be the complete list: a destination missing from a half-read
cache would lose its folder. A claim that cannot be read is refused, never overwritten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from windlass.objects.yaml_emitter import EMITTER

FILE_NAME = ".windlass-claim"
SEED_LAYOUT = "seed"
TAKEOVER_ANNOTATION = "windlass.dev/takeover"

_VERSION = "v1"
_FIELDS = ("claim", "cluster", "destination", "emitter", "layout")
_LARGEST_BYTES = 4096


class ClaimUnreadable(ValueError):
    """The file is no claim of a version we know; the message says which line and why."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Holder of a folder, and with which emitter and layout it is written."""

    cluster: str
    destination: str
    emitter: str = EMITTER
    layout: str = SEED_LAYOUT

    @property
    def holder(self) -> str:
        """The text a take-over annotation must name: `namespace/name@ClusterUID`."""
        return f"{self.destination}@{self.cluster}"


@dataclass(frozen=True, slots=True)
class Absent:
    """Nobody holds the folder; our claim goes in with the first commit."""


@dataclass(frozen=True, slots=True)
class Ours:
    """The folder is ours; `outdated` if emitter or layout have changed since."""

    outdated: bool


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The folder becomes ours; `previous` is the claim that is replaced."""

    previous: Claim


@dataclass(frozen=True, slots=True)
class Foreign:
    """Somebody else holds the folder; nothing may be written."""

    message: str


Verdict: TypeAlias = Absent | Ours | TakeOver | Foreign


def render(claim: Claim) -> bytes:
    """The bytes of the claim file; they change only when the claim does."""
    values = (_VERSION, claim.cluster, claim.destination, claim.emitter, claim.layout)
    for field, value in zip(_FIELDS, values, strict=True):
        if not value or not value.isprintable():
            raise ValueError(f"the {field} of a claim must be one line of printable text")
    rows = zip(_FIELDS, values, strict=True)
    return "".join(f"{field}: {value}\n" for field, value in rows).encode()


def parse(content: bytes) -> Claim:
    """The claim in `content`; ClaimUnreadable where there is none we understand."""
    rows = _rows(content)
    if rows.get("claim") != _VERSION:
        raise ClaimUnreadable(f"{FILE_NAME}: the first line must be `claim: {_VERSION}`")
    missing = [field for field in _FIELDS if not rows.get(field)]
    if missing:
        raise ClaimUnreadable(f"{FILE_NAME}: line `{missing[0]}:` is missing or empty")
    return Claim(rows["cluster"], rows["destination"], rows["emitter"], rows["layout"])


def _rows(content: bytes) -> dict[str, str]:
    if len(content) > _LARGEST_BYTES:
        raise ClaimUnreadable(f"{FILE_NAME}: larger than {_LARGEST_BYTES} bytes")
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as cause:
        raise ClaimUnreadable(f"{FILE_NAME}: not UTF-8") from cause
    rows: dict[str, str] = {}
    for number, line in enumerate((line.removesuffix("\r") for line in lines), start=1):
        field, separator, value = line.partition(": ")
        if not line:
            continue
        if not separator or field not in _FIELDS or field in rows or not value.isprintable():
            raise ClaimUnreadable(f"{FILE_NAME}: line {number} is not understood")
        rows[field] = value
    return rows


def verdict(
    found: Claim | None,
    ours: Claim,
    *,
    existing_destinations: frozenset[str],
    takeover: str | None = None,
) -> Verdict:
    """Whether `ours` may write into a folder in which `found` stands."""
    if found is None:
        return Absent()
    if found.holder == ours.holder:
        return Ours(outdated=found != ours)
    abandoned = found.cluster == ours.cluster and found.destination not in existing_destinations
    if abandoned or takeover == found.holder:
        return TakeOver(found)
    return Foreign(
        f"the folder belongs to GitDestination {found.destination} of cluster {found.cluster}; "
        f"choose another baseFolder, or annotate this GitDestination with "
        f"{TAKEOVER_ANNOTATION}: {found.holder} to take it over"
    )
