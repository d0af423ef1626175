"""Environments, as a part of the controller role."""

from __future__ import annotations

from windlass.api.install import Install
from windlass.app import git_settings
from windlass.app.settings import Settings
from windlass.base.clock import Clock
from windlass.environments.controller import EnvironmentsController, EnvironmentsSettings
from windlass.environments.decide.fences import Surroundings
from windlass.environments.decide.names import Naming
from windlass.environments.decide.owned_objects import Subject
from windlass.environments.decide.reach import Reach
from windlass.environments.decide.trust import Untrusted
from windlass.git.settings import GitSettings
from windlass.kube.api import Api
from windlass.kube.connection import Connection
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.names import GVR
from windlass.telemetry.environments import EnvironmentMetrics

_REVIEWS = GVR("authentication.k8s.io", "v1", "selfsubjectreviews")


class EnvironmentsPart:
    """Makes running copies of Projects."""

    name = "environments"

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        metrics: EnvironmentMetrics,
        *,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._metrics = metrics
        self._clock = clock
        self._running: EnvironmentsController | None = None

    async def run(self) -> None:
        git = git_settings.of(self._settings, self._connection.server)
        settings = _of(self._settings, await self._own_name(), git)
        self._running = EnvironmentsController(
            self._connection, settings, clock=self._clock, metrics=self._metrics
        )
        await self._running.run()

    def unready(self) -> str | None:
        running = self._running
        if running is None or not running.cache.complete:
            return "Projects and Environments are not all read yet; are the CRDs installed?"
        return None if running.guard.is_in_force else running.guard.missing

    async def _own_name(self) -> str:
        """Who we are to the API server: the one whom roles inside a namespace are bound to."""
        question = {"apiVersion": _REVIEWS.api_version, "kind": "SelfSubjectReview"}
        answer = await Api(self._connection).create(
            _REVIEWS, question, field_manager="windlass-environments"
        )
        return str(answer["status"]["userInfo"]["username"])


def _of(settings: Settings, operator: str, git: GitSettings) -> EnvironmentsSettings:
    reserved = {*settings.environments_reserved_namespaces, settings.namespace}
    return EnvironmentsSettings(
        work_directory=settings.work_dir / "environments",
        git=git,
        operator=Subject(operator),
        install=Install(settings.release, settings.namespace),
        follow=ReflectorSettings(
            page_size=settings.page_size, idle_seconds=settings.watch_idle_timeout
        ),
        naming=Naming(
            plain_namespaces=frozenset(settings.environments_plain_namespaces),
            reserved=frozenset(reserved),
        ),
        surroundings=Surroundings(
            cluster_cidrs=settings.environments_cluster_cidrs,
            extra_except=settings.environments_extra_except,
            egress_ceiling=settings.environments_egress_ceiling,
            is_enforced=settings.environments_network_enforcement == "assume",
        ),
        untrusted=Untrusted(
            pod_security=settings.environments_untrusted_pod_security,
            runtime_class_name=settings.environments_untrusted_runtime_class_name,
            node_selector=dict(settings.environments_untrusted_node_selector),
            quota=dict(settings.environments_untrusted_quota),
        ),
        reach=Reach(
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
