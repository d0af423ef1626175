"""Where one destination's files go, and on whose behalf."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.git.credentials import Credentials
from windlass.git.format.objects import Person
from windlass.git.format.remote import Remote
from windlass.objects.names import Key
from windlass.reverser.decide.transition import Prune


@dataclass(frozen=True, slots=True)
class Target:
    """A GitDestination whose references were checked; equal targets mean equal behaviour."""

    key: Key
    uid: str
    repository: Key
    remote: Remote
    branch: str
    base_folder: str
    create_branch: bool
    window_seconds: float | None
    committer: Person
    credentials: Credentials
    takeover: str | None
    salt: bytes
    prune: Prune = "Always"
    created: str = ""
    """When the destination was made, as the API writes it: the older of two keeps a folder."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Remote, branch and folder."""
        return self.remote.identity, self.branch, self.base_folder
