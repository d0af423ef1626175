"""The three capabilities as the controller role runs them, each with its part of the settings.

`run` works until it is cancelled; `why_not_ready` is what the readiness probe reports. Each builds
its controller again when it is restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from windlass.api.install.installation import Installation
from windlass.app.leader_label import LeaderLabel
from windlass.app.settings import Settings
from windlass.app.webhook_registration import WebhookRegistration
from windlass.base.clock import Clock
from windlass.base.fair_slots import FairSlots
from windlass.environments.bundle.cluster_access import ClusterAccess
from windlass.environments.controller import EnvironmentsController, EnvironmentsSettings
from windlass.environments.isolation.network_policies import ClusterNetwork
from windlass.environments.isolation.trust import UntrustedPolicy
from windlass.environments.namespace.naming import NamingRules
from windlass.environments.owned_objects import OperatorAccount
from windlass.gateways.controller.controller import GatewaysController, GatewaysSettings
from windlass.git.runner import MAX_CHILDREN_PER_HOST, OnEnd
from windlass.git.settings import GitSettings, server_endpoint
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.resources import SELF_SUBJECT_REVIEWS
from windlass.reverser.attribution import webhook_frames
from windlass.reverser.attribution.webhook_supervisor import WebhookListeners, WebhookSupervisor
from windlass.reverser.controller import Reverser
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.publish.cadence import WindowLimits
from windlass.reverser.settings import ClusterIdentity, ReverserSettings, load_cluster_identity
from windlass.sources.git_service import GitService
from windlass.telemetry.environments import EnvironmentMetrics
from windlass.telemetry.gateways import GatewayMetrics
from windlass.web import server
from windlass.web.webhook_identity import ServingNames


def git_settings(settings: Settings, api_server: str) -> GitSettings:
    """The limits and permissions of git; no remote may be at `api_server`."""
    return GitSettings(
        insecure_hosts=frozenset(settings.git_insecure_hosts),
        allow_file=settings.git_allow_file,
        refused_cidrs=settings.git_refused_cidrs,
        api_server=server_endpoint(api_server),
        fetch_timeout_seconds=settings.git_fetch_timeout,
        push_timeout_seconds=settings.git_push_timeout,
    )


def reflector_settings(settings: Settings) -> ReflectorSettings:
    """The settings of every watch."""
    return ReflectorSettings(page_size=settings.page_size, idle_seconds=settings.watch_idle_timeout)


_MIB = 1 << 20


def make_git_service(
    settings: Settings, api_server: str, *, clock: Clock, on_end: OnEnd
) -> GitService:
    """The Git service of a process, with the limits and permissions of its settings."""
    return GitService(
        git_settings(settings, api_server),
        clock=clock,
        on_end=on_end,
        slots=FairSlots(settings.workers_max_global, MAX_CHILDREN_PER_HOST),
    )


def reverser_settings(settings: Settings, instance: str) -> ReverserSettings:
    """The settings of the reverser, from those of the process."""
    return ReverserSettings(
        install=Installation(settings.release, settings.namespace),
        instance=instance,
        work_directory=settings.work_dir,
        reflector=reflector_settings(settings),
        limits=WindowLimits(
            files=settings.git_batch_max_files,
            size_bytes=settings.git_batch_max_bytes_mib * _MIB,
            wait_seconds=float(settings.git_batch_max_wait_sec),
        ),
        discovery_refresh_seconds=settings.discovery_refresh,
        excluded=frozenset(settings.discovery_exclude),
        removal_grace_seconds=settings.removal_grace,
        sensitive=frozenset(settings.sensitive_resource),
        readable_annotations=settings.sensitive_annotation_allow,
        watch_all=settings.watch_all,
        noise_filter=settings.noise_filter == "default",
        ingests=settings.enable_watch_ingestion,
        remote_check_seconds=settings.remote_check_interval,
        pending_max_bytes=settings.pending_max_mib * _MIB,
        workers_per_repository=settings.workers_max_per_repo,
        cluster_uid=settings.cluster_uid,
        cluster_destination_namespaces=frozenset(settings.cluster_destination_namespaces),
        attribution_ttl_seconds=settings.attribution_ttl,
        attribution_max_entries=settings.attribution_max_entries,
        attribution_depth=settings.attribution_depth,
    )


class ReverserCapability:
    """Mirrors the cluster to Git; its admission webhook is a process of its own."""

    name = "reverser"

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        git: GitService,
        metrics: MirrorMetrics,
        *,
        holder: str,
        may_push: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._git = git
        self._metrics = metrics
        self._holder = holder
        self._may_push = may_push
        self._clock = clock
        self._api = Api(connection)
        self._installation = Installation(settings.release, settings.namespace)
        # Set when `run` has built it; None before.
        self._controller: Reverser | None = None

    async def run(self) -> None:
        settings = reverser_settings(self._settings, self._holder)
        cluster = await load_cluster_identity(self._api, settings)
        self._controller = Reverser(
            self._connection,
            settings,
            self._git,
            cluster,
            clock=self._clock,
            metrics=self._metrics,
            may_push=self._may_push,
        )
        address = self._settings.webhook_bind_address
        with contextlib.closing(
            server.bind_socket(address.host, address.port, flag="--webhook-bind-address")
        ) as bound:
            await self._run_with_webhook(self._controller, cluster, bound)

    def why_not_ready(self) -> str | None:
        running = self._controller
        if running is None:
            return "connecting to the cluster"
        if not running.objects.is_synced:
            return "custom resources are not synced yet; check that the CRDs are installed"
        if running.catalog.current is None:
            return "API discovery is not complete yet"
        return None if running.attributor.serving else "the admission webhook is not responding yet"

    async def _run_with_webhook(
        self, running: Reverser, cluster: ClusterIdentity, bound: socket.socket
    ) -> None:
        label = LeaderLabel(
            self._connection,
            self._installation,
            self._settings.pod_name,
            running.attributor,
            self._clock,
        )
        registration = WebhookRegistration(
            self._connection,
            self._installation,
            ServingNames(
                (f"{self._installation.leader_service}.{self._installation.namespace}.svc",),
                self._settings.webhook_certificate_addresses,
            ),
            self._clock,
            on_registered=label.set_registered,
        )
        supervisor = WebhookSupervisor(
            bound,
            lambda: self._webhook_settings(registration, cluster),
            WebhookListeners(
                record=running.attributor.add_record,
                gap=running.attributor.add_gap,
                heartbeat=running.attributor.heartbeat,
                answered=running.attributor.count_calls,
                serving=label.set_serving,
            ),
            self._clock,
            log_format=self._settings.log_format,
            log_level=self._settings.log_level,
        )
        running.attributor.request_heartbeat = supervisor.request_heartbeat
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(supervisor.run(), name="webhook"),
                group.create_task(
                    registration.run(supervisor.reconfigure), name="webhook registration"
                ),
                group.create_task(label.run(), name="leader label"),
            ]
            try:
                await running.run()
            finally:
                for helper in helpers:
                    helper.cancel()

    def _webhook_settings(
        self, registration: WebhookRegistration, cluster: ClusterIdentity
    ) -> webhook_frames.ConfigureFrame:
        return webhook_frames.ConfigureFrame(
            certificate_pem=registration.identity.leaf.cert_pem,
            key_pem=registration.identity.leaf.key_pem,
            client_ca_pem=b"",
            digest_key=cluster.digest_key,
            sensitive=list(self._settings.sensitive_resource),
            paths=registration.paths,
        )


class GatewaysCapability:
    """Publishes to agents which commit their gateway should have."""

    name = "gateways"

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        git: GitService,
        metrics: GatewayMetrics,
        *,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._git = git
        self._metrics = metrics
        self._clock = clock
        # Set when `run` has built it; None before.
        self._controller: GatewaysController | None = None

    async def run(self) -> None:
        self._controller = GatewaysController(
            self._connection,
            GatewaysSettings(
                work_directory=self._settings.work_dir / "gateways",
                reflector=reflector_settings(self._settings),
                cluster_name=self._settings.gateways_cluster_name,
                protected_paths=self._settings.gateways_protected_paths,
            ),
            self._git,
            clock=self._clock,
            metrics=self._metrics,
        )
        await self._controller.run()

    def why_not_ready(self) -> str | None:
        running = self._controller
        if running is None or not running.cache.syncs.synced.is_set():
            return "IgnitionSyncs are not synced yet; check that the CRDs are installed"
        return None


class EnvironmentsCapability:
    """Runs Environments: copies of Projects in namespaces of their own."""

    name = "environments"

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        git: GitService,
        metrics: EnvironmentMetrics,
        *,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._git = git
        self._metrics = metrics
        self._clock = clock
        # Set when `run` has built it; None before.
        self._controller: EnvironmentsController | None = None

    async def run(self) -> None:
        settings = _environments_settings(self._settings, await self._own_username())
        self._controller = EnvironmentsController(
            self._connection, settings, self._git, clock=self._clock, metrics=self._metrics
        )
        await self._controller.run()

    def why_not_ready(self) -> str | None:
        running = self._controller
        if running is None or not running.cache.is_synced:
            return "Projects and Environments are not synced yet; check that the CRDs are installed"
        return (
            None if running.operator_policy.is_in_force else running.operator_policy.pending_message
        )

    async def _own_username(self) -> str:
        """Our user name on the API server, which roles inside a namespace are bound to."""
        review = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": "SelfSubjectReview"}
        answer = await Api(self._connection).create(
            SELF_SUBJECT_REVIEWS, review, field_manager="windlass-environments"
        )
        return str(answer["status"]["userInfo"]["username"])


def _environments_settings(settings: Settings, operator: str) -> EnvironmentsSettings:
    reserved = {*settings.environments_reserved_namespaces, settings.namespace}
    return EnvironmentsSettings(
        work_directory=settings.work_dir / "environments",
        operator=OperatorAccount(operator),
        install=Installation(settings.release, settings.namespace),
        reflector=reflector_settings(settings),
        naming=NamingRules(
            plain_namespaces=frozenset(settings.environments_plain_namespaces),
            reserved=frozenset(reserved),
        ),
        network=ClusterNetwork(
            cluster_cidrs=settings.environments_cluster_cidrs,
            extra_except=settings.environments_extra_except,
            egress_ceiling=settings.environments_egress_ceiling,
            is_enforced=settings.environments_network_enforcement == "assume",
        ),
        untrusted=UntrustedPolicy(
            pod_security=settings.environments_untrusted_pod_security,
            runtime_class_name=settings.environments_untrusted_runtime_class_name,
            node_selector=dict(settings.environments_untrusted_node_selector),
            quota=dict(settings.environments_untrusted_quota),
        ),
        cluster_access=ClusterAccess(
            csi_drivers=frozenset(settings.environments_csi_drivers),
            schedulers=frozenset(settings.environments_schedulers),
            allowed_annotations=settings.environments_allowed_annotations,
            denied_annotations=settings.environments_denied_annotations,
        ),
        storage_classes=frozenset(settings.environments_storage_classes),
        poll_seconds=settings.environments_poll_interval,
        rollout_seconds=settings.environments_rollout_timeout,
        helm=settings.environments_helm,
        suspended=settings.environments_suspend,
    )
