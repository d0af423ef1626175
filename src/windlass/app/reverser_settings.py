"""The reverser's settings out of those of the process."""

from __future__ import annotations

from windlass.api.install import Install
from windlass.app.settings import Settings
from windlass.git.settings import GitSettings
from windlass.kube.reflector_state import ReflectorSettings
from windlass.reverser.controller import ReverserSettings
from windlass.reverser.decide.cadence import Limits

_MIB = 1 << 20


def of(settings: Settings, instance: str, git: GitSettings) -> ReverserSettings:
    """Slices the settings of the process."""
    return ReverserSettings(
        install=Install(settings.release, settings.namespace),
        instance=instance,
        work_directory=settings.work_dir,
        git=git,
        follow=ReflectorSettings(
            page_size=settings.page_size, idle_seconds=settings.watch_idle_timeout
        ),
        limits=Limits(
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
        workers_at_once=settings.workers_max_global,
        workers_per_repository=settings.workers_max_per_repo,
        cluster_uid=settings.cluster_uid,
        cluster_destination_namespaces=frozenset(settings.cluster_destination_namespaces),
        attribution_ttl_seconds=settings.attribution_ttl,
        attribution_max_entries=settings.attribution_max_entries,
        attribution_depth=settings.attribution_depth,
    )
