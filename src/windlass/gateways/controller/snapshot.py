"""The input of one reconcile: an IgnitionSync and what belongs to it, read at one moment.

All of it comes from caches, so it costs no request and cannot change during the reconcile.
What could not be read is None, never empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from windlass.api.kinds.ignitionsync import KIND
from windlass.gateways.controller.gateway_cache import (
    CONFIG_MAPS,
    ROLE_BINDINGS,
    ROLES,
    GatewayCache,
)
from windlass.gateways.status.pod_discovery import ObservedPod, PodClaim
from windlass.gateways.wire import agent_objects, agent_report
from windlass.gateways.wire.agent_objects import ObjectOwner
from windlass.gateways.wire.agent_report import AgentReport
from windlass.objects.names import Key, Object
from windlass.runtime import status

_SOURCE_REASONS = frozenset(("SourceUnavailable", "WaitingForGit"))
_UNREACHABLE_PREFIX = "CommitUnreachable:"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One IgnitionSync and its surroundings; `pods` is None while they are not known."""

    key: Key
    raw: bytes
    object: Object
    owner: ObjectOwner
    claims: tuple[PodClaim, ...]
    pods: tuple[ObservedPod, ...] | None
    config_maps: Mapping[str, Object]
    role: Object | None
    binding: Object | None

    @property
    def is_terminating(self) -> bool:
        return bool(self.object["metadata"].get("deletionTimestamp"))

    @property
    def resource_version(self) -> str:
        return str(self.object["metadata"].get("resourceVersion", ""))

    @property
    def request(self) -> str:
        """The newest wish of a person to have this looked at; empty if there is none."""
        return status.newest_request(status.object_annotations(self.object)) or ""

    @property
    def published_data(self) -> Mapping[str, str]:
        """What agents are told at the moment."""
        return self._data(agent_objects.metadata_name(self.key.name))

    @property
    def summary_data(self) -> Mapping[str, str]:
        """What the ConfigMap for people says."""
        return self._data(agent_objects.summary_name(self.key.name))

    def read_report(self, pod: ObservedPod) -> tuple[bool, AgentReport | None]:
        """Whether the agent of a pod wrote something, and what, if it can be read."""
        text = self._data(agent_objects.status_name(pod.uid)).get(pod.name)
        return (text is not None), (agent_report.decode(text) if text is not None else None)

    @property
    def reports_missing_commit(self) -> bool:
        """Whether an agent says that the server does not give it the commit (SRC-4)."""
        reports = (self.read_report(pod)[1] for pod in self.pods or ())
        return any(
            said is not None
            and said.reason in _SOURCE_REASONS
            and said.error_message.startswith(_UNREACHABLE_PREFIX)
            for said in reports
        )

    def _data(self, name: str) -> Mapping[str, str]:
        found = self.config_maps.get(name) or {}
        data: Mapping[str, str] = found.get("data") or {}
        return data


def take_snapshot(cache: GatewayCache, key: Key) -> Snapshot | None:
    """What there is now; None if the IgnitionSync is gone."""
    raw = cache.get_sync(key)
    if raw is None:
        return None
    found: Object = orjson.loads(raw)
    name = agent_objects.role_name(key.name)
    return Snapshot(
        key=key,
        raw=raw,
        object=found,
        owner=ObjectOwner(
            api_version=KIND.gvk.api_version,
            kind=KIND.name,
            namespace=key.namespace,
            name=key.name,
            uid=found["metadata"].get("uid", ""),
        ),
        claims=cache.claims(key.namespace),
        pods=cache.annotated_pods(key.namespace),
        config_maps=cache.list_owned(CONFIG_MAPS, key),
        role=cache.get_owned(ROLES, key.namespace, name),
        binding=cache.get_owned(ROLE_BINDINGS, key.namespace, name),
    )
