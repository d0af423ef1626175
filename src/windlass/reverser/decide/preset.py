"""Which types are taken or left where a rule does not name them.

Three classes of exclusion (RUL-6): soft ones give way to a rule that names the plural,
never-mirrored ones give way to nobody, hard ones are the administrator's word and are
asked first.
"""

from __future__ import annotations

from windlass.api.kinds import watchrules
from windlass.objects.names import GVR

PRESET: tuple[tuple[str, str], ...] = tuple((one.group, one.resource) for one in watchrules.PRESET)
"""RUL-5: what a rule item without `resources` means, as (group, plural)."""

SOFT: frozenset[tuple[str, str]] = frozenset(
    {
        ("", "pods"),
        ("", "endpoints"),
        ("discovery.k8s.io", "endpointslices"),
        ("apps", "controllerrevisions"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("batch", "jobs"),
        ("batch", "cronjobs"),
    }
)

NEVER: frozenset[tuple[str, str]] = frozenset(
    {
        ("", "events"),
        ("events.k8s.io", "events"),
        ("coordination.k8s.io", "leases"),
    }
)


def softly_excluded(gvr: GVR) -> bool:
    """RUL-6 soft: left out of `*` and of --watch-all, taken when named."""
    return (gvr.group, gvr.resource) in SOFT


def never_mirrored(gvr: GVR) -> bool:
    """RUL-6 never: heartbeats and expiring data, which have no desired state."""
    return (gvr.group, gvr.resource) in NEVER


def hard_excluded(gvr: GVR, excluded: frozenset[str]) -> bool:
    """RUL-6 hard: `[group/]resource` of --discovery-exclude.

    A bare plural excludes it in every group, since an administrator who shuts out a name
    must not be surprised by its namesake; `core/` in front means the core group alone.
    """
    names = {gvr.resource.lower(), f"{gvr.group or 'core'}/{gvr.resource}".lower()}
    return any(entry.lower() in names for entry in excluded)
