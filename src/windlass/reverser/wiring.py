"""Builds the parts of the reverser from its settings; called once, by `Reverser`."""

from __future__ import annotations

from collections.abc import Callable

from windlass.api.install import webhook
from windlass.base.clock import Clock
from windlass.objects.names import GVR
from windlass.reverser.attribution.attributor import Attributor
from windlass.reverser.attribution.records import AdmissionRecords
from windlass.reverser.attribution.webhook_coverage import WebhookCoverage
from windlass.reverser.content import noise
from windlass.reverser.content.clean_object import ObjectReader
from windlass.reverser.metrics import MirrorMetrics
from windlass.reverser.publish.publisher import ControllerIdentity, Judge
from windlass.reverser.publish.worker_hooks import WorkerHooks
from windlass.reverser.publish.worker_pool import WorkerPool
from windlass.reverser.settings import ClusterIdentity, ReverserSettings
from windlass.sources.git_service import GitService


def make_object_reader(settings: ReverserSettings, identity: ClusterIdentity) -> ObjectReader:
    """The reader of live objects; windlass's own objects are noise to it."""
    install = settings.install
    own: noise.OwnObjects = frozenset(
        {
            ("Secret", install.namespace, install.salt_secret),
            ("Secret", install.namespace, install.webhook_secret),
            # windlass writes its path and caBundle; they are not desired state of a user.
            ("ValidatingWebhookConfiguration", "", install.webhook_configuration),
            ("Lease", install.namespace, install.lease),
        }
    )
    return ObjectReader(
        digest_key=identity.digest_key,
        sensitive=settings.sensitive,
        own_objects=own,
        noise_filter=settings.noise_filter,
        readable_annotations=settings.readable_annotations,
    )


def make_attributor(
    settings: ReverserSettings,
    metrics: MirrorMetrics,
    clock: Clock,
    *,
    on_state_change: Callable[[], None],
    definition_deleted: Callable[[GVR], bool],
) -> Attributor:
    """The attributor; it expects no request from namespaces that the webhook leaves out."""
    records = AdmissionRecords(
        settings.attribution_ttl_seconds,
        settings.attribution_max_entries,
        settings.attribution_depth,
    )
    left_out = frozenset({*webhook.SYSTEM_NAMESPACES, settings.install.namespace})
    return Attributor(
        records,
        metrics,
        clock,
        coverage=WebhookCoverage(left_out),
        on_state_change=on_state_change,
        definition_deleted=definition_deleted,
    )


def make_worker_pool(
    settings: ReverserSettings,
    identity: ClusterIdentity,
    git: GitService,
    clock: Clock,
    *,
    judge: Judge,
    hooks: WorkerHooks,
) -> WorkerPool:
    """The pool of branch workers, which sign commits with the identity of this controller."""
    return WorkerPool(
        work_directory=settings.work_directory,
        git=git,
        controller_identity=ControllerIdentity(
            cluster_uid=identity.cluster_uid,
            controller_namespace=settings.install.namespace,
            controller_name=settings.install.release,
            instance_id=settings.instance,
        ),
        judge=judge,
        limits=settings.limits,
        hooks=hooks,
        clock=clock,
        max_workers_per_repository=settings.workers_per_repository,
        pending_max_bytes=settings.pending_max_bytes,
    )
