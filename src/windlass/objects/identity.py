"""Identity of one live object: its type and its key."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.objects.gvr import GVR
from windlass.objects.key import Key


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """What an object is called, in whichever version it is served to us."""

    gvr: GVR
    namespace: str
    name: str

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def identifier(self) -> str:
        """The text of subjects and logs: `{group/}{version}/{resource}/{name}`."""
        return f"{self.gvr}/{self.name}"

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.gvr}/{where}{self.name}"
