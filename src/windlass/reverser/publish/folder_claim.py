"""The claim file of a folder, and which of several destinations keeps a folder.

| Claim in the folder                                               | Verdict       |
|-------------------------------------------------------------------|---------------|
| none                                                              | Unclaimed     |
| this cluster, this destination                                    | OwnClaim      |
| this cluster, a destination that no longer exists                 | ClaimTakeover |
| this cluster, a destination of another namespace                  | ForeignClaim  |
| any other holder, named by the take-over annotation               | ClaimTakeover |
| any other holder                                                  | ForeignClaim  |

The annotation is the word of one tenant, so it takes nothing from another tenant's destination.

`existing_destinations` must be the complete list: a destination missing from a cache that is not
synced would lose its folder. A claim that cannot be parsed is refused, never overwritten.

Folders of one branch overlap if they are equal or one lies within the other (GIT-2);
siblings do not, however similar their names are. The verdict depends on Git and on the objects
alone, so it is the same after a restart:

| Of two destinations                          | Keeps the folder                    |
|----------------------------------------------|-------------------------------------|
| one namespace, only one takes a folder over  | that one                            |
| only one has its claim in Git                | that one                            |
| both have the same or nothing, one namespace | the older one, then the first name  |
| both have nothing, two namespaces            | both, until one of them has a claim |
| both have the same, two namespaces           | the older one, then the first name  |

So a destination that never pushed keeps no destination of another namespace out of a folder.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from windlass.objects.names import Key
from windlass.objects.yaml_emitter import EMITTER

FILE_NAME = ".windlass-claim"
SEED_LAYOUT = "seed"
TAKEOVER_ANNOTATION = "windlass.dev/takeover"

_VERSION = "v1"
_FIELDS = ("claim", "cluster", "destination", "emitter", "layout")
_MAX_BYTES = 4096


class ClaimUnreadable(ValueError):
    """The file is not a claim of a known version; the message names the line."""


@dataclass(frozen=True, slots=True)
class FolderClaim:
    """Holder of a folder, and the emitter and layout that its files are written with."""

    cluster: str
    destination: str
    emitter: str = EMITTER
    layout: str = SEED_LAYOUT

    @property
    def namespace(self) -> str:
        """The namespace of the destination."""
        return self.destination.partition("/")[0]

    @property
    def holder(self) -> str:
        """The value that a take-over annotation must have: `namespace/name@ClusterUID`."""
        return f"{self.destination}@{self.cluster}"


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """The folder has no claim; ours is added by the first commit."""


@dataclass(frozen=True, slots=True)
class OwnClaim:
    """The folder has our claim; `outdated` if emitter or layout changed since."""

    outdated: bool


@dataclass(frozen=True, slots=True)
class ClaimTakeover:
    """The folder becomes ours; `previous` is the claim that is replaced."""

    previous: FolderClaim


@dataclass(frozen=True, slots=True)
class ForeignClaim:
    """Another destination holds the folder; nothing may be written."""

    message: str


ClaimVerdict: TypeAlias = Unclaimed | OwnClaim | ClaimTakeover | ForeignClaim


def render_claim(claim: FolderClaim) -> bytes:
    """The bytes of the claim file; they change only when the claim does."""
    values = (_VERSION, claim.cluster, claim.destination, claim.emitter, claim.layout)
    for field, value in zip(_FIELDS, values, strict=True):
        if not value or not value.isprintable():
            raise ValueError(f"the {field} of a claim must be one line of printable text")
    rows = zip(_FIELDS, values, strict=True)
    return "".join(f"{field}: {value}\n" for field, value in rows).encode()


def parse_claim(content: bytes) -> FolderClaim:
    """The claim in `content`; raises ClaimUnreadable if it is malformed or of another version."""
    rows = _parse_rows(content)
    if rows.get("claim") != _VERSION:
        raise ClaimUnreadable(f"{FILE_NAME}: must start with `claim: {_VERSION}`")
    missing = [field for field in _FIELDS if not rows.get(field)]
    if missing:
        raise ClaimUnreadable(f"{FILE_NAME}: line `{missing[0]}:` is missing or empty")
    return FolderClaim(rows["cluster"], rows["destination"], rows["emitter"], rows["layout"])


def _parse_rows(content: bytes) -> dict[str, str]:
    if len(content) > _MAX_BYTES:
        raise ClaimUnreadable(f"{FILE_NAME}: is larger than {_MAX_BYTES} bytes")
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as cause:
        raise ClaimUnreadable(f"{FILE_NAME}: is not valid UTF-8") from cause
    rows: dict[str, str] = {}
    for number, line in enumerate((line.removesuffix("\r") for line in lines), start=1):
        field, separator, value = line.partition(": ")
        if not line:
            continue
        if not separator or field not in _FIELDS or field in rows or not value.isprintable():
            raise ClaimUnreadable(f"{FILE_NAME}: line {number} is invalid")
        rows[field] = value
    return rows


def judge_claim(
    existing: FolderClaim | None,
    ours: FolderClaim,
    *,
    existing_destinations: frozenset[str],
    takeover: str | None = None,
) -> ClaimVerdict:
    """Whether `ours` may write into a folder that has the claim `existing`, by the table above."""
    if existing is None:
        return Unclaimed()
    if existing.holder == ours.holder:
        return OwnClaim(outdated=existing != ours)
    abandoned = (
        existing.cluster == ours.cluster and existing.destination not in existing_destinations
    )
    may_take_over = existing.cluster != ours.cluster or existing.namespace == ours.namespace
    if abandoned or (may_take_over and takeover == existing.holder):
        return ClaimTakeover(existing)
    return ForeignClaim(
        f"folder is claimed by GitDestination {existing.destination} of cluster "
        f"{existing.cluster}; choose another baseFolder, or {_remedy(existing, may_take_over)}"
    )


def _remedy(existing: FolderClaim, may_take_over: bool) -> str:
    if may_take_over:
        return (
            f"annotate this GitDestination with {TAKEOVER_ANNOTATION}: {existing.holder} "
            "to take it over"
        )
    return (
        "have that GitDestination deleted; if it writes to another folder now, delete "
        f"{FILE_NAME} of this folder in Git"
    )


class ClaimStrength(IntEnum):
    """What entitles a destination to its folder; the greater wins."""

    NONE = 0
    CLAIM = 1
    TAKEOVER = 2


@dataclass(frozen=True, slots=True)
class FolderContender:
    """A destination that needs a folder; `created` is a timestamp that sorts as text."""

    destination: Key
    folder: str
    created: str
    strength: ClaimStrength

    def loses_to(self, other: FolderContender) -> bool:
        """Whether `other` keeps the folder, by the table above."""
        other_namespace = self.destination.namespace != other.destination.namespace
        mine, theirs = (each._strength(other_namespace) for each in (self, other))
        if mine != theirs:
            return mine < theirs
        # Else a destination that never pushed could block another tenant's folder.
        if other_namespace and mine == ClaimStrength.NONE:
            return False
        return other.seniority < self.seniority

    def _strength(self, other_namespace: bool) -> ClaimStrength:
        """The strength against a contender; a take-over is not a claim in Git yet."""
        is_annotation = self.strength == ClaimStrength.TAKEOVER
        return ClaimStrength.NONE if other_namespace and is_annotation else self.strength

    @property
    def seniority(self) -> tuple[str, str]:
        """The sort key where Git does not decide: age, then name."""
        return self.created, str(self.destination)


def folders_overlap(first: str, second: str) -> bool:
    """Whether a file of one folder could lie in the other."""
    shorter, longer = sorted((f"{first}/", f"{second}/"), key=len)
    return longer.startswith(shorter)


def overlap_message(loser: FolderContender, holder: FolderContender) -> str:
    """The condition message of the loser; a holder of another namespace is not named."""
    same_namespace = holder.destination.namespace == loser.destination.namespace
    holder_text = (
        f"folder {holder.folder} of GitDestination {holder.destination}"
        if same_namespace
        else "the folder of another GitDestination"
    )
    return (
        f"baseFolder {loser.folder} overlaps {holder_text} on the same branch; "
        "choose another baseFolder"
    )
