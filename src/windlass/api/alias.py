"""The older way to write a Project or an Environment, turned into the later one.

Done once, where an object is decoded; the stored object is never rewritten, because the
tool that wrote it would write it back. Pure, and giving it what it returned changes
nothing.
"""

from __future__ import annotations

from windlass.api.environment_source import EnvironmentSource, SingleCommit
from windlass.api.project_source import (
    DEFAULT_TEMPLATE,
    PRIMARY,
    ProjectSource,
    SingleSource,
    SingleTemplate,
    Template,
)


def project_sources(
    single: SingleSource | None, several: tuple[ProjectSource, ...] | None
) -> tuple[ProjectSource, ...]:
    """The repositories of a Project."""
    if single is None:
        return several or ()
    url, branch = single.repository_url, single.branch
    return (ProjectSource(name=PRIMARY, repository_url=url, branch=branch),)


def project_templates(
    single: SingleTemplate | None, several: dict[str, Template] | None
) -> dict[str, Template]:
    """The templates of a Project; the older way knows one, for every type."""
    if single is None:
        return several or {}
    template = Template(type=single.type, path=single.path, values=single.values)
    # Without a source: the first is the only one there is, whatever it is called.
    return {DEFAULT_TEMPLATE: template}


def environment_sources(
    single: SingleCommit | None, several: tuple[EnvironmentSource, ...] | None
) -> tuple[EnvironmentSource, ...]:
    """What an Environment asks of the repositories."""
    if single is None:
        return several or ()
    commit, branch = single.commit_sha, single.branch
    return (EnvironmentSource(name=PRIMARY, commit_sha=commit, branch=branch),)
