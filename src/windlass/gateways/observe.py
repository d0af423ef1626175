"""Everything a pass over one IgnitionSync decides from, read in one moment.

All of it comes from caches, so it costs no request and cannot change under the pass. What
could not be read is None, never empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from windlass.api.kinds.ignitionsync import KIND
from windlass.gateways.cache import CONFIG_MAPS, ROLE_BINDINGS, ROLES, Cache
from windlass.gateways.decide import owned, status_report
from windlass.gateways.decide.discovery import Claim
from windlass.gateways.decide.owned import Owner
from windlass.gateways.decide.pods import LivePod
from windlass.gateways.decide.status_report import Report
from windlass.objects.names import Key, Object
from windlass.runtime import status

_WITHOUT_SOURCE = frozenset(("SourceUnavailable", "WaitingForGit"))
_UNREACHABLE = "CommitUnreachable:"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One IgnitionSync and its surroundings; `pods` is None while they are not known."""

    key: Key
    raw: bytes
    object: Object
    owner: Owner
    claims: tuple[Claim, ...]
    pods: tuple[LivePod, ...] | None
    config_maps: Mapping[str, Object]
    role: Object | None
    binding: Object | None

    @property
    def is_terminating(self) -> bool:
        return bool(self.object["metadata"].get("deletionTimestamp"))

    @property
    def version(self) -> str:
        return str(self.object["metadata"].get("resourceVersion", ""))

    @property
    def request(self) -> str:
        """The newest wish of a person to have this looked at; empty if there is none."""
        return status.newest_request(status.object_annotations(self.object)) or ""

    @property
    def told(self) -> Mapping[str, str]:
        """What agents are told at the moment."""
        return self._data(owned.metadata_name(self.key.name))

    @property
    def summary(self) -> Mapping[str, str]:
        """What the ConfigMap for people says."""
        return self._data(owned.summary_name(self.key.name))

    def report(self, pod: LivePod) -> tuple[bool, Report | None]:
        """Whether the agent of a pod wrote something, and what, if it can be read."""
        text = self._data(owned.status_name(pod.uid)).get(pod.name)
        return (text is not None), (status_report.decode(text) if text is not None else None)

    @property
    def misses_commit(self) -> bool:
        """Whether an agent says that the server does not give it the commit (SRC-4)."""
        reports = (self.report(pod)[1] for pod in self.pods or ())
        return any(
            said is not None
            and said.reason in _WITHOUT_SOURCE
            and said.error_message.startswith(_UNREACHABLE)
            for said in reports
        )

    def _data(self, name: str) -> Mapping[str, str]:
        found = self.config_maps.get(name) or {}
        data: Mapping[str, str] = found.get("data") or {}
        return data


def snapshot(cache: Cache, key: Key) -> Snapshot | None:
    """What there is now; None if the IgnitionSync is gone."""
    raw = cache.sync(key)
    if raw is None:
        return None
    found: Object = orjson.loads(raw)
    name = owned.rights_name(key.name)
    return Snapshot(
        key=key,
        raw=raw,
        object=found,
        owner=Owner(
            api_version=KIND.gvk.api_version,
            kind=KIND.name,
            namespace=key.namespace,
            name=key.name,
            uid=found["metadata"].get("uid", ""),
        ),
        claims=cache.claims(key.namespace),
        pods=cache.live_pods(key.namespace),
        config_maps=cache.kept_for(CONFIG_MAPS, key),
        role=cache.get(ROLES, key.namespace, name),
        binding=cache.get(ROLE_BINDINGS, key.namespace, name),
    )
