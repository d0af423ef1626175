"""Table of all settings of a process.

Each field of `Settings` declares a setting: its form, default, meaning (its help text). From it
come the flag `--discovery-refresh`, the variable `WINDLASS_DISCOVERY_REFRESH` and the key
`discovery-refresh` of the file given by `--config`. A flag wins over a variable, a
variable over the file, the file over the default.
"""

# ruff: noqa: RUF009 - _declare makes dataclass fields

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from windlass.app import settings_forms as forms
from windlass.app.settings_forms import Form, ListenAddress, Pair
from windlass.telemetry.log_setup import LogFormat, LogLevel

T = TypeVar("T")

NoiseFilter = Literal["default", "off"]
CapabilityName = Literal["gateways", "reverser", "environments"]
Enforcement = Literal["assume", "absent"]
PodSecurity = Literal["restricted", "baseline"]

PREFIX = "WINDLASS_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    attribute: str
    form: Form[Any]
    default: Any
    help: str

    @property
    def name(self) -> str:
        return self.attribute.replace("_", "-")

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        return PREFIX + self.attribute.upper()

    @property
    def repeated(self) -> bool:
        return isinstance(self.form, forms.Several)


def _declare(form: Form[T], default: str, help: str) -> T:  # noqa: A002
    return dataclasses.field(default=form.read(default), metadata={"form": form, "help": help})


_RESOURCES = forms.Several(forms.RESOURCE)
_NOISE_FILTERS: forms.OneOf[NoiseFilter] = forms.OneOf(get_args(NoiseFilter))
_CAPABILITY_NAMES: forms.OneOf[CapabilityName] = forms.OneOf(get_args(CapabilityName))
_ENFORCEMENTS: forms.OneOf[Enforcement] = forms.OneOf(get_args(Enforcement))
_POD_SECURITY_LEVELS: forms.OneOf[PodSecurity] = forms.OneOf(get_args(PodSecurity))
LOG_FORMATS: forms.OneOf[LogFormat] = forms.OneOf(get_args(LogFormat))
LOG_LEVELS: forms.OneOf[LogLevel] = forms.OneOf(get_args(LogLevel))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting of a process, resolved; the last argument of each field explains it."""

    capabilities: tuple[CapabilityName, ...] = _declare(
        forms.Commas(_CAPABILITY_NAMES, needs_one=True),
        ",".join(get_args(CapabilityName)),
        "Capabilities that this operator runs.",
    )
    enable_watch_ingestion: bool = _declare(
        forms.Bool(), "true", "Mirror objects; false only validates the resources of windlass."
    )
    discovery_refresh: float = _declare(
        forms.Duration(), "5m", "Time between full API discoveries, as a safety net."
    )
    watch_all: bool = _declare(
        forms.Bool(),
        "false",
        "Let a rule entry without resources select every type that can be watched.",
    )
    discovery_exclude: tuple[str, ...] = _declare(
        _RESOURCES, "", "Types that are never mirrored, whatever a rule selects."
    )
    removal_grace: float = _declare(
        forms.Duration(),
        "60s",
        "Age of a GitDestination up to which files in its folder that no rule selects are kept, "
        "unless this process wrote them.",
    )
    git_batch_max_files: int = _declare(
        forms.Int(1, 100_000),
        "200",
        "Files after which a window is pushed; also the maximum per commit.",
    )
    git_batch_max_bytes_mib: int = _declare(
        forms.Int(1, 1024),
        "1",
        "MiB after which a window is pushed; also the maximum of a commit with several files.",
    )
    git_batch_max_wait_sec: int = _declare(
        forms.Int(0, 3600), "20", "Seconds after which a window is pushed."
    )
    workers_max_global: int = _declare(
        forms.Int(1, 1000),
        "24",
        "Maximum number of git processes of all capabilities at the same time.",
    )
    workers_max_per_repo: int = _declare(
        forms.Int(1, 1000),
        "5",
        "Maximum number of branch workers of the reverser that use Git with the same repository "
        "at the same time.",
    )
    work_dir: Path = _declare(
        forms.Directory(),
        "/var/cache/gitops-reverser",
        "Directory of the bare Git stores; its content is disposable.",
    )
    page_size: int = _declare(forms.Int(1, 10_000), "500", "Objects per page of a list request.")
    watch_idle_timeout: float = _declare(
        forms.Duration(), "80s", "Time without any data after which a watch is restarted."
    )
    remote_check_interval: float = _declare(
        forms.Duration(or_off=True), "60s", "Time between checks of each remote branch."
    )
    git_push_timeout: float = _declare(forms.Duration(), "60s", "Hard deadline of a push.")
    git_fetch_timeout: float = _declare(forms.Duration(), "5m", "Hard deadline of a fetch.")
    cluster_uid: str = _declare(
        forms.UID, "", "Identity of this cluster; empty uses the uid of the namespace kube-system."
    )
    pending_max_mib: int = _declare(
        forms.Int(1, 1_048_576), "512", "MiB not yet pushed that a store may contain."
    )
    attribution_ttl: float = _declare(
        forms.Duration(), "60s", "How long an admission record is kept."
    )
    attribution_max_entries: int = _declare(
        forms.Int(1, 10_000_000), "10000", "Objects for which admission records are kept."
    )
    attribution_depth: int = _declare(
        forms.Int(1, 1000), "10", "Admission records kept for one object."
    )
    sensitive_resource: tuple[str, ...] = _declare(
        _RESOURCES,
        "",
        "Additional types whose values are redacted like those of Secrets; "
        "without a group a plural names its type in every group.",
    )
    sensitive_annotation_allow: tuple[str, ...] = _declare(
        forms.Several(forms.ANNOTATION_PREFIX),
        "",
        "Annotation prefixes whose values of up to 256 bytes stay readable on Secrets and "
        "sensitive types, in addition to those of Helm, Argo CD, Flux and cert-manager; all other "
        "values become keyed digests.",
    )
    noise_filter: NoiseFilter = _declare(
        _NOISE_FILTERS,
        "default",
        "Skip objects that controllers create and update on their own; off mirrors them too.",
    )
    git_insecure_hosts: tuple[str, ...] = _declare(
        forms.Several(forms.HOST),
        "",
        "Hosts that git may connect to without encryption, and at otherwise refused addresses.",
    )
    git_refused_cidrs: tuple[str, ...] = _declare(
        forms.Several(forms.CIDR),
        "",
        "Addresses that git never connects to, in addition to the API server, loopback, "
        "link-local and metadata services.",
    )
    git_allow_file: bool = _declare(
        forms.Bool(),
        "false",
        "Allow file:/// repositories, read from the operator's own disk; do not enable it where "
        "tenants can choose the repository.",
    )
    cluster_destination_namespaces: tuple[str, ...] = _declare(
        forms.Several(forms.LABEL),
        "",
        "Namespaces whose GitDestinations ClusterWatchRules may use, in addition to that of "
        "windlass.",
    )
    gateways_cluster_name: str = _declare(
        forms.CLUSTER_NAME, "", "Name of this cluster in the templates of gateways."
    )
    gateways_protected_paths: tuple[str, ...] = _declare(
        forms.Several(forms.RELATIVE_PATH),
        "",
        "Paths in a gateway's data directory that are never written or deleted, in addition to the "
        "built-in ones.",
    )
    environments_poll_interval: float = _declare(
        forms.Duration(), "60s", "Time between checks of the branches that Environments follow."
    )
    environments_rollout_timeout: float = _declare(
        forms.Duration(), "10m", "Time after which a revision that is not ready has failed."
    )
    environments_plain_namespaces: tuple[str, ...] = _declare(
        forms.Commas(forms.LABEL),
        "default",
        "Namespaces whose Environments may run in namespaces with short names.",
    )
    environments_reserved_namespaces: tuple[str, ...] = _declare(
        forms.Several(forms.LABEL),
        "",
        "Names that must not be used for the namespace of an Environment.",
    )
    environments_cluster_cidrs: tuple[str, ...] = _declare(
        forms.Several(forms.CIDR), "", "Addresses of the cluster; Environments cannot reach them."
    )
    environments_extra_except: tuple[str, ...] = _declare(
        forms.Several(forms.CIDR), "", "Additional addresses that Environments cannot reach."
    )
    environments_egress_ceiling: tuple[str, ...] = _declare(
        forms.Several(forms.CIDR), "", "Private addresses that Projects may allow."
    )
    environments_network_enforcement: Enforcement = _declare(
        _ENFORCEMENTS,
        "assume",
        "Whether this cluster enforces NetworkPolicies; absent rejects untrusted Environments and "
        "warns about the others. `windlass check --network-probe` measures it.",
    )
    environments_untrusted_pod_security: PodSecurity = _declare(
        _POD_SECURITY_LEVELS, "restricted", "Pod Security level of untrusted Environments."
    )
    environments_untrusted_runtime_class_name: str = _declare(
        forms.OPTIONAL_OBJECT_NAME, "", "RuntimeClass of the pods of untrusted Environments."
    )
    environments_untrusted_node_selector: tuple[Pair, ...] = _declare(
        forms.LABEL_PAIRS, "", "Labels of the nodes on which untrusted Environments run."
    )
    environments_untrusted_quota: tuple[Pair, ...] = _declare(
        forms.QUOTA_PAIRS,
        "",
        "Quota of untrusted Environments, never more than the Project's default quota; defaults "
        "to half of that.",
    )
    environments_storage_classes: tuple[str, ...] = _declare(
        forms.Several(forms.OBJECT_NAME),
        "",
        "StorageClasses that PersistentVolumeClaims of Environments may use; empty allows every "
        "class with a provisioner.",
    )
    environments_csi_drivers: tuple[str, ...] = _declare(
        forms.Several(forms.OBJECT_NAME),
        "",
        "CSI drivers that pods of Environments may use inline.",
    )
    environments_schedulers: tuple[str, ...] = _declare(
        forms.Several(forms.OBJECT_NAME),
        "",
        "Schedulers that pods of Environments may use, in addition to default-scheduler.",
    )
    environments_allowed_annotations: tuple[str, ...] = _declare(
        forms.Several(forms.KEY_PREFIX),
        "",
        "Prefixes of annotation keys that are kept on pods, Services, ServiceAccounts and "
        "PersistentVolumeClaims of all Environments, including untrusted ones.",
    )
    environments_denied_annotations: tuple[str, ...] = _declare(
        forms.Several(forms.KEY_PREFIX),
        "",
        "Prefixes of annotation and label keys that are removed from all objects of Environments, "
        "in addition to those known to act outside of the namespace.",
    )
    environments_helm: str = _declare(
        forms.PROGRAM,
        "helm",
        "Path or name of the helm program that renders charts; empty rejects charts.",
    )
    environments_suspend: bool = _declare(
        forms.Bool(),
        "false",
        "Stop reconciling all Projects and Environments; they can still be deleted.",
    )
    namespace: str = _declare(forms.LABEL, "windlass-system", "Namespace that windlass runs in.")
    release: str = _declare(
        forms.LABEL, "windlass", "Name of the installation; prefix of the names of its objects."
    )
    pod_name: str = _declare(
        forms.OPTIONAL_OBJECT_NAME,
        "",
        "Name of the pod that windlass runs in, from the downward API; the leader labels it so "
        "that admission calls reach it. Empty where windlass runs in no pod.",
    )
    leader_elect: bool = _declare(
        forms.Bool(), "true", "Elect a leader, so that only one of several replicas works."
    )
    leader_elect_lease_duration: float = _declare(
        forms.Duration(), "15s", "Time after which a lease that is not renewed expires."
    )
    leader_elect_renew_deadline: float = _declare(
        forms.Duration(),
        "10s",
        "Time for which a leader tries to renew its lease; must be shorter than its duration.",
    )
    leader_elect_retry_period: float = _declare(
        forms.Duration(),
        "2s",
        "Time between attempts to acquire or renew the lease; must be shorter than the renew "
        "deadline.",
    )
    webhook_bind_address: ListenAddress = _declare(
        forms.Listen(), "0.0.0.0:9443", "Address of the admission webhook."
    )
    webhook_certificate_addresses: tuple[str, ...] = _declare(
        forms.Several(forms.IP),
        "",
        "IP addresses in the certificate of the webhook, in addition to the name of its Service; "
        "needed where the API server calls it by address.",
    )
    metrics_bind_address: ListenAddress = _declare(
        forms.Listen(), ":8080", "Address of the metrics endpoint."
    )
    health_probe_bind_address: ListenAddress = _declare(
        forms.Listen(), ":8081", "Address of /healthz and /readyz."
    )
    log_format: LogFormat = _declare(
        LOG_FORMATS,
        "auto",
        "Log format; auto is text on a terminal and JSON otherwise.",
    )
    log_level: LogLevel = _declare(LOG_LEVELS, "info", "Minimum level of log records.")


TABLE: tuple[Setting, ...] = tuple(
    Setting(field.name, field.metadata["form"], field.default, field.metadata["help"])
    for field in dataclasses.fields(Settings)
)


def reference_table() -> str:
    """The table as Markdown."""
    rows = [
        "| Flag and file key | Variable | Default | Value | Meaning |",
        "|---|---|---|---|---|",
        *(_reference_row(setting) for setting in TABLE),
    ]
    return "\n".join(rows) + "\n"


def _reference_row(setting: Setting) -> str:
    default = setting.form.write(setting.default)
    shown = f"`{default}`" if default else ""
    return (
        f"| `{setting.flag}` | `{setting.variable}` | {shown} "
        f"| {setting.form.expected} | {setting.help} |"
    )
