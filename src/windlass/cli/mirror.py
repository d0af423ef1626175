"""`windlass mirror`: dump a cluster into a directory, without installing anything."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.objects.names import format_count
from windlass.objects.resources import NAMESPACES

if TYPE_CHECKING:
    from windlass.app.settings_forms import Text
    from windlass.kube.api import Api
    from windlass.reverser.content.clean_object import ObjectReader
    from windlass.reverser.dump import DumpDiff, DumpSelection


def mirror(
    to: Annotated[Path, typer.Option(metavar="DIR", help="Output directory.")],
    once: Annotated[bool, typer.Option("--once", help="Take one snapshot, then exit.")],
    kubeconfig: Annotated[Path | None, typer.Option(help="Path to the kubeconfig file.")] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig.")] = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Only this namespace; repeatable.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(help="[group/]resource to mirror; repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="[group/]resource to skip; repeatable.")
    ] = None,
    preset: Annotated[
        str,
        typer.Option(help="Types without --include: seed (the common ones) or all."),
    ] = "seed",
    include_owned: Annotated[
        bool, typer.Option("--include-owned", help="Include objects owned by a controller.")
    ] = False,
    sensitive_resource: Annotated[
        list[str] | None,
        typer.Option(
            help="[group/]resource whose values are redacted like those of Secrets; repeatable."
        ),
    ] = None,
    sensitive_annotation_allow: Annotated[
        list[str] | None,
        typer.Option(
            help="Annotation prefix that stays readable on Secrets and sensitive types; repeatable."
        ),
    ] = None,
    noise_filter: Annotated[bool, typer.Option(help="Skip system-generated objects.")] = True,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete files whose object no longer exists.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; exit 2 if there are differences.")
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Output format: text or json.")
    ] = "text",
) -> None:
    """Write every selected object as one clean YAML file; values of Secrets are redacted."""
    import asyncio

    from windlass.app import settings_forms as forms
    from windlass.base import redaction
    from windlass.base.errors import WindlassError
    from windlass.reverser.content import secret_redaction
    from windlass.reverser.content.clean_object import ObjectReader
    from windlass.reverser.dump import DumpSelection

    if not once:
        raise WindlassError("Usage", "--once is required; continuous mirroring is not supported")
    if preset not in ("seed", "all"):
        raise WindlassError("Usage", f'--preset: unsupported value "{preset}"; use seed or all')
    if output not in ("text", "json"):
        raise WindlassError("Usage", f'--output: unsupported value "{output}"; use text or json')
    selection = DumpSelection(
        namespaces=tuple(namespace or ()),
        include=tuple(include or ()),
        exclude=frozenset(exclude or ()),
        watch_all=preset == "all",
        include_owned=include_owned,
    )
    sensitive = _read_list(forms.RESOURCE, sensitive_resource, "--sensitive-resource")
    readable = _read_list(
        forms.ANNOTATION_PREFIX, sensitive_annotation_allow, "--sensitive-annotation-allow"
    )
    salt = _salt()
    reader = ObjectReader(
        secret_redaction.derive_digest_key(salt),
        frozenset(sensitive),
        noise_filter=noise_filter,
        readable_annotations=readable,
    )
    try:
        diff = asyncio.run(
            _run_dump(
                selection,
                to,
                kubeconfig,
                context,
                reader=reader,
                salt=salt,
                writes=not dry_run,
                prunes=prune,
            )
        )
    except OSError as error:
        raise WindlassError(
            "DirectoryUnusable",
            f"{to}: {error.filename}: {error.strerror}; symbolic links and special files "
            "are not followed",
        ) from error
    text = _as_json(diff) if output == "json" else _as_text(diff, to, dry_run)
    typer.echo(redaction.visible(text))
    if diff.unreadable:
        sys.exit(1)
    if dry_run and diff:
        sys.exit(2)


def _read_list(form: Text, texts: list[str] | None, flag: str) -> tuple[str, ...]:
    """The values of a repeatable flag, checked as the setting of the same name."""
    from windlass.app import settings_forms as forms
    from windlass.base.errors import WindlassError

    try:
        return forms.Several(form).read(",".join(texts or ()))
    except ValueError as error:
        raise WindlassError("Usage", f"{flag}: {error} is not {form.expected}") from error


async def _run_dump(
    selection: DumpSelection,
    to: Path,
    kubeconfig: Path | None,
    context: str | None,
    *,
    reader: ObjectReader,
    salt: bytes,
    writes: bool,
    prunes: bool,
) -> DumpDiff:
    from windlass.base import redaction
    from windlass.base.safe_directory import SafeDirectory
    from windlass.kube.api import Api
    from windlass.kube.connection import Connection
    from windlass.reverser.content import secret_redaction
    from windlass.reverser.dump import DESTINATION, Dump

    async with Connection.open(kubeconfig=kubeconfig, context=context) as connection:
        api = Api(connection)
        dump = Dump(
            api,
            SafeDirectory(to),
            reader,
            salt=secret_redaction.derive_destination_salt(salt, DESTINATION),
            cluster_uid=await _cluster_uid(api, connection.server),
            writes=writes,
            prunes=prunes,
            progress=lambda text: typer.echo(redaction.visible(text), err=True),
        )
        return await dump.run(selection)


async def _cluster_uid(api: Api, server: str) -> str:
    """The uid of the cluster; its address where reading kube-system is forbidden."""
    from windlass.kube.errors import Forbidden

    try:
        system = await api.get(NAMESPACES, "kube-system")
    except Forbidden:
        return server
    uid: str = system["metadata"]["uid"]
    return uid


def _salt() -> bytes:
    """The salt of this user, created once; it is never part of the dump."""
    import os
    import secrets

    from windlass.base import files

    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    file = config / "windlass" / "mirror-salt"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.write_atomically(file, secrets.token_bytes(32), mode=0o600)
    return file.read_bytes()


def _as_text(diff: DumpDiff, to: Path, dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    lines = [
        f"{to}: {len(diff.created)} {would}created, {len(diff.updated)} {would}updated, "
        f"{len(diff.removed)} {would}removed, {diff.unchanged} unchanged"
    ]
    lines += [
        f"  skipped {format_count(count, 'object')}: {_SKIP_TEXTS.get(reason, reason)}"
        for reason, count in sorted(diff.skipped.items())
    ]
    lines += [f"  cannot read {text}" for text in diff.unreadable]
    return "\n".join(lines)


_SKIP_TEXTS = {
    "ControllerOwned": "owned by a controller",
    "Noise": "generated by the system",
    "OwnObject": "internal objects of windlass",
    "PathOccupied": "path occupied by another file",
    "Terminating": "being deleted",
    "Undecodable": "cannot be decoded",
}


def _as_json(diff: DumpDiff) -> str:
    return json.dumps(
        {
            "created": diff.created,
            "updated": diff.updated,
            "removed": diff.removed,
            "unchanged": diff.unchanged,
            "skipped": diff.skipped,
            "unread": diff.unreadable,
        },
        indent=2,
    )
