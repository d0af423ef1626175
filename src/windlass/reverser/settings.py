"""Settings of the reverser, and the identity of the cluster that it mirrors.

`app` fills the settings from flags and loads the identity before it builds a `Reverser`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from windlass.api.install.installation import Installation
from windlass.kube.api import Api
from windlass.kube.reflector_state import ReflectorSettings
from windlass.objects.resources import NAMESPACES
from windlass.reverser import mirror_salt
from windlass.reverser.content import secret_redaction
from windlass.reverser.publish import cadence


@dataclass(frozen=True, slots=True)
class ReverserSettings:
    """The reverser's slice of the process settings; `app` fills it from flags."""

    # Release and namespace, from which the names of windlass's own objects follow.
    install: Installation
    # Identity of this process, as in the lease and in commit trailers.
    instance: str
    # Where the bare stores of the branches are; may be empty at the start.
    work_directory: Path
    # Of every watch: page size and idle timeout.
    reflector: ReflectorSettings = field(default_factory=ReflectorSettings)
    # When a window of changes closes, and how large a commit gets.
    limits: cadence.WindowLimits = field(default_factory=cadence.WindowLimits)
    # Interval of API discovery; changes of CRDs and APIServices trigger it earlier.
    discovery_refresh_seconds: float = 300.0
    # `[group/]resource` of types that no rule selects.
    excluded: frozenset[str] = frozenset()
    # Age up to which a GitDestination may lack its rules without losing files.
    removal_grace_seconds: float = 60.0
    # `[group/]resource` of types that are redacted like Secrets.
    sensitive: frozenset[str] = frozenset()
    # Annotation prefixes that stay readable on redacted objects, beside the built-in ones.
    readable_annotations: tuple[str, ...] = ()
    # Whether a rule item without `resources` selects every type instead of the preset.
    watch_all: bool = False
    # Whether objects that controllers create on their own are left out.
    noise_filter: bool = True
    # False: rules are checked and reported, but select nothing, so nothing is watched.
    ingests: bool = True
    # Interval at which remotes are listed; 0 = on change and on request only.
    remote_check_seconds: float = 60.0
    # Bytes not yet pushed that one branch may hold; above it, folders whose pushes fail drop
    # them and list the objects again later.
    pending_max_bytes: int = 512 << 20
    # Branch workers of one remote repository that may write at the same time.
    workers_per_repository: int = 5
    # Stable identity of the cluster in claims and trailers; empty = uid of kube-system.
    cluster_uid: str = ""
    # Beside the install namespace: where a ClusterWatchRule may have its destination.
    cluster_destination_namespaces: frozenset[str] = frozenset()
    # How long an admission record can explain a change.
    attribution_ttl_seconds: float = 60.0
    # Object versions (uid and resourceVersion) for which admission records are kept.
    attribution_max_entries: int = 10_000
    # Admission records kept per object version.
    attribution_depth: int = 10


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Identity and salt of the cluster, loaded before anything is mirrored."""

    cluster_uid: str
    mirror_salt: bytes

    @property
    def digest_key(self) -> bytes:
        """The key under which digests of sensitive objects are kept in memory."""
        return secret_redaction.derive_digest_key(self.mirror_salt)


async def load_cluster_identity(api: Api, settings: ReverserSettings) -> ClusterIdentity:
    """Read the uid of the cluster and the salt of its mirror, which is created if missing."""
    uid = settings.cluster_uid
    if not uid:
        namespace = await api.get(NAMESPACES, "kube-system")
        uid = namespace["metadata"]["uid"]
    return ClusterIdentity(uid, await mirror_salt.ensure_salt(api, settings.install))
