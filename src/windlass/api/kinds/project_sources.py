"""Sources and templates: repositories and commits that Environments are made from.

A Project lists repositories and templates, an Environment the commits of them. Both specs also
have an older form, with one source and one template. `canonical_…` converts the older form into
the current one when an object is decoded. The stored object is never rewritten, because the tool
that wrote it would write it back. Canonical input is returned unchanged.

Pure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from windlass.api.schema import remote_url
from windlass.api.schema.constraint import Constraint, camel_case, schema_extra
from windlass.api.schema.object_references import SecretRef
from windlass.api.schema.remote_url import RemoteUrl
from windlass.api.schema.scalars import (
    FreeObject,
    Glob,
    LabelName,
    LabelNameOrFirst,
    RefOrDefault,
    TreePath,
    TreePathOrRoot,
)

PRIMARY_SOURCE = "primary"
"""The name of the only source of a Project that writes `source`."""

DEFAULT_TEMPLATE = "default"
"""The template of every type that has none of its own."""

TemplateType = Literal["manifest", "helm"]

TypeName = Annotated[str, Meta(min_length=1, max_length=30, pattern="^[a-z][a-z0-9-]{0,29}$")]
"""The type of an Environment, which chooses its template."""

_URL_TEXT = (
    "URL of the repository: https://host/path, ssh://user@host/path or user@host:path. It must "
    "not contain a password or token. http:// and git:// are allowed only for hosts in "
    "--git-insecure-hosts, file:/// only with --git-allow-file."
)
_BRANCH_TEXT = "Branch to follow; defaults to the default branch of the repository."
_PATH_TEXT = (
    "Path in the repository; defaults to its root. For manifest a file, or a directory whose YAML "
    "and JSON files are read at any depth, except in directories whose names begin with a dot; "
    "for helm the directory with Chart.yaml."
)
_TYPE_TEXT = (
    "How files become objects: manifest reads them as they are and skips documents with neither "
    "apiVersion nor kind, which status.unsupported of the Environment lists; helm renders the "
    "chart, whose dependencies must be in its charts directory."
)
_VALUES_TEXT = (
    "Values for the chart, at most 256 KiB; they override valuesFiles. Keys are not checked."
)


def _only_helm(field: str) -> Constraint:
    return _only_for_type(
        "helm", field, f"{camel_case(field)} is only allowed for a template of type helm"
    )


def _only_for_type(kind: TemplateType, field: str, message: str) -> Constraint:
    return Constraint(
        f"self.type == '{kind}' || !has(self.{camel_case(field)})",
        message,
        lambda template: template.type == kind or getattr(template, field) is None,
        field,
    )


class ProjectSource(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One repository."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = remote_url.url_constraints(
        "repository_url", "secretRef"
    )

    name: Annotated[
        LabelName,
        Meta(description="Name of the source, which templates and Environments refer to."),
    ]
    repository_url: Annotated[RemoteUrl, Meta(description=_URL_TEXT)]
    branch: Annotated[RefOrDefault, Meta(description=_BRANCH_TEXT)] = ""
    secret_ref: Annotated[
        SecretRef | None,
        Meta(
            description="Secret with the credentials, in the namespace of the Project: an SSH key "
            "(ssh-privatekey, identity or sshPrivateKey, with known_hosts), username and password, "
            "or a token; ca.crt for a private CA. They are sent to the host of this URL only."
        ),
    ] = None


class SingleSource(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The only repository of a Project, in the older form."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = remote_url.url_constraints(
        "repository_url", "sources[].secretRef"
    )

    repository_url: Annotated[RemoteUrl, Meta(description=_URL_TEXT)]
    branch: Annotated[RefOrDefault, Meta(description=_BRANCH_TEXT)] = ""


class Template(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the Environments of one type are rendered."""

    # Rules across fields; the CRD publishes them as CEL.
    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (
        _only_helm("values"),
        _only_helm("values_files"),
        _only_for_type(
            "manifest",
            "exclude",
            "exclude is only allowed for a template of type manifest; use .helmignore in a chart",
        ),
    )

    type: Annotated[TemplateType, Meta(description=_TYPE_TEXT)]
    source_ref: Annotated[
        LabelNameOrFirst, Meta(description="Name of the source; defaults to the first one.")
    ] = ""
    path: Annotated[TreePathOrRoot, Meta(description=_PATH_TEXT)] = ""
    values: Annotated[FreeObject | None, Meta(description=_VALUES_TEXT)] = None
    values_files: Annotated[
        Annotated[tuple[TreePath, ...], Meta(max_length=8, extra=schema_extra(list_type="atomic"))]
        | None,
        Meta(
            description="Files with values for the chart, as paths from the root of the "
            "repository, not of the chart; they override the chart's own values, later files "
            "override earlier ones."
        ),
    ] = None
    exclude: Annotated[
        Annotated[tuple[Glob, ...], Meta(max_length=16, extra=schema_extra(list_type="atomic"))]
        | None,
        Meta(
            description="Patterns of files to exclude, relative to path: * and ? match within one "
            "name, ** matches any number of directories, and a pattern that matches a directory "
            "excludes everything below it. A pattern without / matches the top level only; begin "
            "it with **/ for any depth."
        ),
    ] = None


class SingleTemplate(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The only template of a Project, in the older form."""

    CONSTRAINTS: ClassVar[tuple[Constraint, ...]] = (_only_helm("values"),)

    type: Annotated[TemplateType, Meta(description=_TYPE_TEXT)]
    path: Annotated[TreePathOrRoot, Meta(description=_PATH_TEXT)] = ""
    values: Annotated[FreeObject | None, Meta(description=_VALUES_TEXT)] = None


CommitChoice = Annotated[str, Meta(max_length=64, pattern="^(HEAD|[0-9a-f]{7,40}|[0-9a-f]{64})?$")]
"""A commit; empty or HEAD means the newest of the branch."""

_COMMIT_TEXT = "Commit to use; if empty or HEAD, the newest commit of the branch is followed."
_COMMIT_BRANCH_TEXT = (
    "Branch to follow, which must contain commitSha if that is set; defaults to the branch of the "
    "Project."
)


class EnvironmentSource(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The commit or branch of one repository of the Project."""

    name: Annotated[
        LabelName,
        Meta(
            description="Name of the source in the Project. If both have only one source, any name "
            "matches."
        ),
    ]
    commit_sha: Annotated[CommitChoice, Meta(description=_COMMIT_TEXT)] = ""
    branch: Annotated[RefOrDefault, Meta(description=_COMMIT_BRANCH_TEXT)] = ""


class SingleCommit(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The commit or branch of the only repository, in the older form."""

    commit_sha: Annotated[CommitChoice, Meta(description=_COMMIT_TEXT)] = ""
    branch: Annotated[RefOrDefault, Meta(description=_COMMIT_BRANCH_TEXT)] = ""


def canonical_project_sources(
    single: SingleSource | None, several: tuple[ProjectSource, ...] | None
) -> tuple[ProjectSource, ...]:
    """The repositories of a Project, from either form."""
    if single is None:
        return several or ()
    url, branch = single.repository_url, single.branch
    return (ProjectSource(name=PRIMARY_SOURCE, repository_url=url, branch=branch),)


def canonical_project_templates(
    single: SingleTemplate | None, several: dict[str, Template] | None
) -> dict[str, Template]:
    """The templates of a Project, from either form; the older one has one for every type."""
    if single is None:
        return several or {}
    template = Template(type=single.type, path=single.path, values=single.values)
    # Without sourceRef: the first source is the only one, whatever its name.
    return {DEFAULT_TEMPLATE: template}


def canonical_environment_sources(
    single: SingleCommit | None, several: tuple[EnvironmentSource, ...] | None
) -> tuple[EnvironmentSource, ...]:
    """The commits and branches of an Environment, from either form."""
    if single is None:
        return several or ()
    commit, branch = single.commit_sha, single.branch
    return (EnvironmentSource(name=PRIMARY_SOURCE, commit_sha=commit, branch=branch),)
