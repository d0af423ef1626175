"""The API groups that our kinds live in."""

from __future__ import annotations

from dataclasses import dataclass

VERSION = "v1alpha1"


@dataclass(frozen=True, slots=True)
class Group:
    """A group by its name in `apiVersion`, and the categories `kubectl get` finds it under."""

    name: str
    categories: tuple[str, ...]

    @property
    def api_version(self) -> str:
        return f"{self.name}/{VERSION}"


CONFIGBUTLER = Group("configbutler.ai", ("windlass", "configbutler"))
IGNITION = Group("sync.ignition.io", ("windlass",))
CATALYST = Group("catalyst.catalyst.dev", ("windlass", "catalyst"))
