"""What a remote answers when asked for its refs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_BRANCHES = "refs/heads/"
_SHA256_CHARS = 64


@dataclass(frozen=True, slots=True)
class Listing:
    """The branches of a remote at one moment; no refs = an empty repository."""

    refs: Mapping[str, str]
    default_branch: str | None
    object_format: str = "sha1"

    @property
    def is_empty(self) -> bool:
        return not self.refs

    def tip(self, branch: str) -> str | None:
        """The commit a branch is at, or None where there is no such branch."""
        return self.refs.get(_BRANCHES + branch)

    @property
    def default_tip(self) -> str | None:
        return self.tip(self.default_branch) if self.default_branch is not None else None


def parse(output: bytes) -> Listing:
    """The listing that `ls-remote --symref` printed; ValueError where it is none."""
    refs: dict[str, str] = {}
    default: str | None = None
    for line in output.decode("utf-8", "surrogateescape").splitlines():
        value, tab, name = line.partition("\t")
        if not tab:
            raise ValueError("the remote's list of refs is malformed")
        if name == "HEAD" and value.startswith(f"ref: {_BRANCHES}"):
            default = value.removeprefix(f"ref: {_BRANCHES}")
        elif name.startswith(_BRANCHES):
            refs[name] = value
    sha256 = any(len(value) == _SHA256_CHARS for value in refs.values())
    return Listing(refs, default, "sha256" if sha256 else "sha1")
