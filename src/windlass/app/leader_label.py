"""Keeps the label `role=leader` on the pod of the leader alone, so that admission calls reach it.

The Service in the webhook configuration selects by this label. The reverser runs it beside the
webhook, on the connection that refuses writes without the lease: a leader that was paused cannot
label itself again, and its label is removed by the next one.

| Observed | Then |
|---|---|
| another pod of the release has the label | removed there before our own pod gets it |
| our pod lacks it | set, if the pod is still the one that was read |
| our pod is not found | reported; changes have no author until it is |
| stop | removed from our pod, before the lease is released |

A call that reaches another pod leaves no record here, so the records have a gap from the last check
that found the label right until `ENDPOINT_SECONDS` after it was set. The settle time of the
attributor is too short for that: it covers an API server that reloads its configuration (0.5 s),
not EndpointSlices and kube-proxy.
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from windlass.api.install.installation import Installation
from windlass.api.install.webhook import LEADER_LABEL
from windlass.base import tasks
from windlass.base.clock import Clock
from windlass.base.errors import Stalled, WindlassError
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.errors import NotFound
from windlass.objects.names import Object
from windlass.objects.resources import PODS
from windlass.reverser.attribution.attributor import Attributor

ENDPOINT_SECONDS = 5.0
"""How long calls may still reach another pod: kube-proxy applies changed EndpointSlices at most
once a second by default, and both it and their controller may be busy."""

_CHECK_SECONDS = 10.0
_RETRY_SECONDS = 2.0
_REMOVE_SECONDS = 2.0
_FIELD_MANAGER = "windlass-leader-label"
_UNLABELED: Object = dict.fromkeys(LEADER_LABEL)

_log = structlog.get_logger(__name__)


class LeaderLabel:
    """The label on our pod, and what its absence means for records.

    The attributor is told that calls reach us once the webhook is registered and, in a pod, the
    label is set. An empty `pod_name` means that we run in no pod: no label is written.
    """

    def __init__(
        self,
        connection: Connection,
        installation: Installation,
        pod_name: str,
        attributor: Attributor,
        clock: Clock,
    ) -> None:
        self._api = Api(connection)
        self._installation = installation
        self._pod_name = pod_name
        self._attributor = attributor
        self._clock = clock
        # Set once the webhook process answers; it stays set while a new one replaces it, because
        # calls wait in the queue of the listening socket.
        self._serving = asyncio.Event()
        # Whether the webhook configuration sends requests to us, or to our Service.
        self._registered = False
        # Whether our pod alone had the label when pods were last listed.
        self._labeled = not pod_name
        # Monotonic time of the last list that found the label right.
        self._checked_at = 0.0

    def set_serving(self, serving: bool) -> None:
        """Note that the webhook process began or ceased to answer."""
        self._attributor.set_serving(serving)
        if serving:
            self._serving.set()

    def set_registered(self, registered: bool) -> None:
        """Note whether the webhook configuration sends requests to us, or to our Service."""
        self._registered = registered
        if not registered:
            self._attributor.set_registered(False)
        elif self._labeled:
            self._attributor.set_registered(True)

    async def run(self) -> None:
        """Keep the label on our pod until cancelled, then remove it."""
        if not self._pod_name:
            return
        await self._serving.wait()
        try:
            while True:
                seconds = await self._check()
                await asyncio.sleep(seconds)
        finally:
            await tasks.finish(asyncio.ensure_future(self._remove_own()))

    async def _check(self) -> float:
        """Reconcile once; returns the seconds until the next time."""
        try:
            await self._reconcile()
        except WindlassError as error:
            # An API server that does not respond removes no label.
            if not self._labeled:
                self._attributor.set_registered(False)
            _log.warning(
                "labeling the leader's pod failed, retrying",
                pod=self._pod_name,
                reason=error.reason,
                message=error.message,
            )
            return _RETRY_SECONDS
        return _CHECK_SECONDS

    async def _reconcile(self) -> None:
        listed_at = self._clock.monotonic()
        pods = await self._list_pods()
        labeled = {name for name, pod in pods.items() if _is_labeled(pod)}
        if labeled != {self._pod_name} or not self._labeled:
            self._mark_unlabeled()
            await self._move_label(pods, labeled)
            self._mark_labeled()
        self._checked_at = listed_at

    async def _list_pods(self) -> dict[str, Object]:
        """The pods of this release by name."""
        selector = ",".join(f"{key}={value}" for key, value in self._installation.labels.items())
        namespace = self._installation.namespace
        pods = await self._api.list(PODS, namespace, label_selector=selector)
        if self._pod_name not in {pod["metadata"]["name"] for pod in pods}:
            raise Stalled(
                "PodNotFound",
                f"pod {namespace}/{self._pod_name} with the labels {selector} does not exist; "
                "check --pod-name, --namespace and --release",
            )
        return {pod["metadata"]["name"]: pod for pod in pods}

    async def _move_label(self, pods: dict[str, Object], labeled: set[str]) -> None:
        for name in sorted(labeled - {self._pod_name}):
            with contextlib.suppress(NotFound):
                await self._patch(name, {"labels": _UNLABELED})
            _log.info("removed the leader label", pod=name)
        if self._pod_name not in labeled:
            # With the version: a request that was on the way when we lost the lease must not
            # restore the label that the next leader has removed.
            version = pods[self._pod_name]["metadata"]["resourceVersion"]
            await self._patch(self._pod_name, {"labels": LEADER_LABEL, "resourceVersion": version})
            _log.info("set the leader label", pod=self._pod_name)

    async def _patch(self, name: str, metadata: Object) -> None:
        await self._api.merge_patch(
            PODS,
            name,
            {"metadata": metadata},
            self._installation.namespace,
            field_manager=_FIELD_MANAGER,
        )

    async def _remove_own(self) -> None:
        """Remove the label from our pod; without the lease the next leader does it."""
        with contextlib.suppress(WindlassError, TimeoutError):
            async with asyncio.timeout(_REMOVE_SECONDS):
                await self._patch(self._pod_name, {"labels": _UNLABELED})

    def _mark_unlabeled(self) -> None:
        # Before the first label nothing is reported: records are incomplete anyway.
        if self._labeled:
            self._labeled = False
            self._attributor.set_registered(False)

    def _mark_labeled(self) -> None:
        self._labeled = True
        until = self._clock.monotonic() + ENDPOINT_SECONDS
        self._attributor.add_gap(self._checked_at, until, 0)
        if self._registered:
            self._attributor.set_registered(True)


def _is_labeled(pod: Object) -> bool:
    return LEADER_LABEL.items() <= (pod["metadata"].get("labels") or {}).items()
