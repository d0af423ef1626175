"""The input of one reconcile: an IgnitionSync, the pods of its namespace, its owned objects.

All of it comes from caches, so it costs no request and cannot change during the reconcile.
What could not be read is None, never empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from windlass.api.kinds.ignitionsync import KIND
from windlass.gateways.controller.gateway_cache import GatewayCache
from windlass.gateways.status.pod_discovery import ObservedPod, PodClaim
from windlass.gateways.wire import agent_objects, agent_report
from windlass.gateways.wire.agent_objects import ObjectOwner
from windlass.gateways.wire.agent_report import AgentReport
from windlass.objects.names import Key, Object
from windlass.objects.resources import CONFIG_MAPS, ROLE_BINDINGS
from windlass.runtime import status

_SOURCE_REASONS = frozenset(("SourceUnavailable", "WaitingForGit"))
_UNREACHABLE_PREFIX = "CommitUnreachable:"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One IgnitionSync with everything a reconcile reads from caches."""

    key: Key  # of the IgnitionSync
    raw: bytes  # the object as JSON, still to be validated by `IgnitionSync.decode`
    object: Object  # the same object, decoded without validation
    owner: ObjectOwner  # the object as owner of what we write for it
    claims: tuple[PodClaim, ...]  # of all valid IgnitionSyncs of the namespace, this one included
    pods: tuple[ObservedPod, ...] | None  # annotated pods; None until the pods were listed once
    config_maps: Mapping[str, Object]  # owned ConfigMaps by name, our newest writes included
    binding: Object | None  # the agents' RoleBinding; None if there is none

    @property
    def is_terminating(self) -> bool:
        return bool(self.object["metadata"].get("deletionTimestamp"))

    @property
    def resource_version(self) -> str:
        return str(self.object["metadata"].get("resourceVersion", ""))

    @property
    def request(self) -> str:
        """The newest reconcile request among the annotations; empty if there is none."""
        return status.newest_request(status.object_annotations(self.object)) or ""

    @property
    def published_data(self) -> Mapping[str, str]:
        """The data of the metadata ConfigMap that agents read now; empty if there is none."""
        return self._data(agent_objects.metadata_name(self.key.name))

    @property
    def summary_data(self) -> Mapping[str, str]:
        """The data of the summary ConfigMap; empty if there is none."""
        return self._data(agent_objects.summary_name(self.key.name))

    def read_report(self, pod: ObservedPod) -> tuple[bool, AgentReport | None]:
        """Whether the agent of a pod wrote a report, and the report if it is valid."""
        text = self._data(agent_objects.status_name(pod.uid)).get(pod.name)
        return (text is not None), (agent_report.decode(text) if text is not None else None)

    @property
    def reports_missing_commit(self) -> bool:
        """Whether an agent reports that the server does not give it the commit (SRC-4)."""
        reports = (self.read_report(pod)[1] for pod in self.pods or ())
        return any(
            report is not None
            and report.reason in _SOURCE_REASONS
            and report.error_message.startswith(_UNREACHABLE_PREFIX)
            for report in reports
        )

    def _data(self, name: str) -> Mapping[str, str]:
        config_map = self.config_maps.get(name) or {}
        data: Mapping[str, str] = config_map.get("data") or {}
        return data


def take_snapshot(cache: GatewayCache, key: Key) -> Snapshot | None:
    """The snapshot of one IgnitionSync; None if it is gone."""
    raw = cache.get_sync(key)
    if raw is None:
        return None
    obj: Object = orjson.loads(raw)
    role_name = agent_objects.role_name(key.name)
    return Snapshot(
        key=key,
        raw=raw,
        object=obj,
        owner=ObjectOwner(
            api_version=KIND.gvk.api_version,
            kind=KIND.name,
            namespace=key.namespace,
            name=key.name,
            uid=obj["metadata"].get("uid", ""),
        ),
        claims=cache.claims(key.namespace),
        pods=cache.annotated_pods(key.namespace),
        config_maps=cache.list_owned(CONFIG_MAPS, key),
        binding=cache.get_owned(ROLE_BINDINGS, key.namespace, role_name),
    )
