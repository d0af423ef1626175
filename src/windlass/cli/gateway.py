"""`windlass gateway`: the agent's engine on a directory of this machine, without a cluster.

Exit codes: 0 means nothing to do or done, 2 that there is a difference, 1 an error. Results
go to stdout, everything else to stderr.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from windlass.cli.gateway_options import GatewayOptions, accepts_gateway_options

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from windlass.cli.gateway_local import LocalGateway, LocalScan
    from windlass.gateways.agent.operations import GatewayOperations
    from windlass.gateways.agent.sync import PlannedSync, SyncResult
    from windlass.gateways.tree.live_tree import FileDrift

app = typer.Typer(
    name="gateway",
    help="Plan, diff, apply, verify and roll back the files of a gateway on this machine.",
    no_args_is_help=True,
)

EXIT_DIFFERENT = 2

R = TypeVar("R")

Output = Annotated[str, typer.Option("--output", "-o", metavar="text|json", help="Output format.")]
Directory = Annotated[
    Path, typer.Option("--to", metavar="DIR", help="Data directory of the gateway.")
]
ScanUrl = Annotated[
    str,
    typer.Option("--scan", metavar="URL", help="Address of the gateway to scan afterwards."),
]


@app.callback()
def _load_lean() -> None:
    """Load the logging library without rich, before a command loads anything else."""
    from windlass.telemetry import log_setup

    log_setup.load_structlog()


@app.command()
@accepts_gateway_options
def plan(inputs: GatewayOptions, output: Output = "text") -> None:
    """Print what a sync would do, without changing anything."""
    from windlass.gateways.tree.plan import to_json

    _check_output(output)
    planned = _run(_plan(inputs))
    _print(to_json(planned.plan).decode() if output == "json" else _plan_text(planned))
    sys.exit(EXIT_DIFFERENT if planned.plan.ops else 0)


@app.command()
@accepts_gateway_options
def diff(inputs: GatewayOptions) -> None:
    """Print the diff of every changed file; binary files by digest and size."""
    sys.exit(EXIT_DIFFERENT if _run(_diff(inputs)) else 0)


@app.command()
@accepts_gateway_options
def apply(
    inputs: GatewayOptions,
    allow_mass_delete: Annotated[
        str, typer.Option(metavar="SHA", help="Commit that may delete many files, as a full SHA.")
    ] = "",
    scan: ScanUrl = "",
    output: Output = "text",
) -> None:
    """Write the files to the data directory as the agent does; rollback undoes it."""
    _check_output(output)
    done, scanned = _run(_apply(inputs, allow_mass_delete, scan))
    _print(_applied_json(done, scanned) if output == "json" else _applied_text(done, scanned))
    # The files are in place all the same, so the result comes first.
    scanned.raise_failure()


@app.command()
def verify(
    to: Directory,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Exclude pattern, in addition to those of the last sync; repeatable."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the API token of the gateway, name:secret; its resource is not extra.",
        ),
    ] = None,
    output: Output = "text",
) -> None:
    """Compare the content of every synced file with the last sync."""
    _check_output(output)
    drift = _run(_verify(to, exclude or [], token_file))
    _print(_drift_json(drift) if output == "json" else _drift_text(drift, to))
    sys.exit(EXIT_DIFFERENT if drift.has_drift else 0)


@app.command()
def rollback(
    to: Directory,
    scan: ScanUrl = "",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the API token of the gateway, name:secret."),
    ] = None,
) -> None:
    """Undo the last apply; a second rollback undoes the first."""
    text, scanned = _run(_rollback(to, scan, token_file))
    _print(text)
    scanned.raise_failure()


def _run(work: Coroutine[Any, Any, R]) -> R:
    """The result of a command; its errors name flags."""
    import asyncio

    from windlass.cli import gateway_output

    with gateway_output.errors_with_flags():
        return asyncio.run(work)


def _check_output(output: str) -> None:
    from windlass.base.errors import WindlassError

    if output not in ("text", "json"):
        raise WindlassError("Usage", f'--output: unsupported value "{output}"; use text or json')


async def _plan(inputs: GatewayOptions) -> PlannedSync:
    from windlass.cli import gateway_local

    request, git = gateway_local.read_request(inputs), gateway_local.local_git(inputs)
    order = await gateway_local.build_order(inputs, request, git)
    with gateway_local.open_gateway(inputs.to, git, request.repo) as gateway:
        _print_interrupted(gateway)
        return await gateway.engine.plan(order)


async def _diff(inputs: GatewayOptions) -> bool:
    from windlass.cli import gateway_local

    request, git = gateway_local.read_request(inputs), gateway_local.local_git(inputs)
    order = await gateway_local.build_order(inputs, request, git)
    with gateway_local.open_gateway(inputs.to, git, request.repo) as gateway:
        _print_interrupted(gateway)
        planned = await gateway.engine.plan(order)
        _print_diff(gateway, planned)
        return bool(planned.plan.ops)


async def _apply(inputs: GatewayOptions, allowed: str, scan: str) -> tuple[SyncResult, LocalScan]:
    from windlass.cli import gateway_local
    from windlass.gateways.agent.interrupt import Interrupt

    gateway_local.check_scan(scan, inputs.token_file)
    request, git = gateway_local.read_request(inputs), gateway_local.local_git(inputs)
    order = await gateway_local.build_order(inputs, request, git, allowed)
    with gateway_local.open_gateway(inputs.to, git, request.repo) as gateway:
        work = await _start_agent(gateway, scan, inputs.token_file)
        done = await work.sync(order, Interrupt(), trigger=work.state.trigger)
        return done, await gateway_local.run_scan(work, request.policy, scan)


async def _rollback(to: Path, scan: str, token_file: Path | None) -> tuple[str, LocalScan]:
    from windlass.cli import gateway_local
    from windlass.gateways.wire.metadata import SyncPolicy
    from windlass.git.runner import Git

    gateway_local.check_scan(scan, token_file)
    with gateway_local.open_gateway(to, Git()) as gateway:
        work = await _start_agent(gateway, scan, token_file)
        before = work.applied_tree
        # The rollback request that an agent has handled stays handled.
        if not await work.rollback(work.state.rollback, work.state.trigger):
            return f"{to}: nothing to roll back", gateway_local.LocalScan("skipped")
        after, scanned = work.applied_tree, await gateway_local.run_scan(work, SyncPolicy(), scan)
    old = before.version.commit[:7] if before is not None else "nothing"
    new = after.version.commit[:7] if after is not None else "the state before the first sync"
    return f"{to}: rolled back from {old} to {new}; scan: {scanned.text}", scanned


async def _start_agent(
    gateway: LocalGateway, scan: str, token_file: Path | None
) -> GatewayOperations:
    """The operations of an agent, after an interrupted apply was completed or undone."""
    from windlass.cli import gateway_local, gateway_output

    work = gateway_local.agent_operations(gateway, scan, token_file)
    ended = await work.start()
    if ended is not None:
        _print_note(gateway_output.resumed_note(ended))
    return work


def _print_interrupted(gateway: LocalGateway) -> None:
    from windlass.cli import gateway_output

    record = gateway.applier.interrupted_transaction()
    if record is not None:
        _print_note(gateway_output.interrupted_note(record))


def _print_note(text: str) -> None:
    """Print a note to stderr; it may quote files of the data directory."""
    _print(f"windlass: {text}", err=True)


async def _verify(to: Path, exclude: list[str], token_file: Path | None) -> FileDrift:
    from windlass.base.errors import WindlassError
    from windlass.cli import gateway_local
    from windlass.gateways.volume import inspection
    from windlass.git.runner import Git

    gateway_local.check_excludes(exclude)
    api_token = gateway_local.read_token_name(token_file)
    with gateway_local.open_gateway(to, Git()) as gateway:
        _print_interrupted(gateway)
        manifest = gateway.applier.manifest()
        if manifest is None:
            raise WindlassError(
                "NothingSynced",
                f"{to} contains no synced files; run `windlass gateway apply` first",
            )
        excludes = gateway_local.effective_excludes(manifest, exclude)
        return inspection.inspect_drift(
            gateway.applier, None, manifest, excludes, everything=True, api_token=api_token
        )


def _plan_text(planned: PlannedSync) -> str:
    from windlass.cli.gateway_local import default_excludes
    from windlass.cli.gateway_output import with_flags

    plan, signs = planned.plan, {"mkdir": "+", "delete": "-", "rmdir": "-"}
    lines = []
    for op in plan.ops:
        is_new = op.path not in planned.live_tree.files
        sign = signs.get(op.op) or ("+" if is_new else "~")
        slash = "/" if op.op in ("mkdir", "rmdir") else ""
        altered = f" [{', '.join(op.transforms)}]" if op.transforms else ""
        lines.append(f"{sign} {op.path}{slash}{altered}")
    lines += [f"skipped: {entry.path}: {entry.why}" for entry in plan.skipped]
    # Most of the usual excludes match nothing; one that a person wrote should.
    unused = [entry for entry in plan.unused if entry not in default_excludes()]
    lines += [f"unused exclude: {entry}" for entry in unused]
    lines += [f"warning: {with_flags(text)}" for text in (*plan.warnings, *planned.warnings)]
    lines += [f"held: {guard.reason}: {with_flags(guard.message)}" for guard in plan.guards]
    counts = plan.counts()
    scans = ", ".join(plan.scans) or "none"
    lines.append(
        f"{plan.gateway}: {plan.from_commit[:7] or 'nothing'} -> {plan.to_commit[:7]}, "
        f"{counts.get('put', 0)} to write, {counts.get('delete', 0)} to delete, scans: {scans}"
    )
    lines.append(f"digest {plan.digest}")
    return "\n".join(lines)


def _print(text: str, *, err: bool = False) -> None:
    """Print with control characters escaped: names may come from a repository or a gateway."""
    from windlass.base import redaction

    typer.echo(redaction.visible(text), err=err)


def _print_diff(gateway: LocalGateway, planned: PlannedSync) -> None:
    for op in planned.plan.ops:
        if op.op in ("put", "delete"):
            new = gateway.engine.content(planned, op.path) if op.op == "put" else b""
            exists = op.path in planned.live_tree.files
            old = gateway.applier.directory.read(op.path) if exists else b""
            _print(_file_diff(op.path, old, new, is_new=not exists, goes=op.op == "delete"))


def _file_diff(path: str, old: bytes | None, new: bytes | None, *, is_new: bool, goes: bool) -> str:
    import difflib

    source, sink = ("/dev/null" if is_new else f"a/{path}"), ("/dev/null" if goes else f"b/{path}")
    before, after = _lines(old), _lines(new)
    if before is None or after is None:
        return (
            f"--- {source}\n+++ {sink}\nbinary: {_digest_and_size(old)} -> {_digest_and_size(new)}"
        )
    rows = difflib.unified_diff(before, after, source, sink, lineterm="")
    return "\n".join(row.rstrip("\n") for row in rows)


def _lines(content: bytes | None) -> list[str] | None:
    """The lines of a text; None for what is none, or too large to be shown."""
    if content is None or b"\0" in content:
        return None
    try:
        return content.decode().splitlines(keepends=True)
    except UnicodeDecodeError:
        return None


def _digest_and_size(content: bytes | None) -> str:
    import hashlib

    if content is None:
        return "large"
    if not content:
        return "empty"
    return f"sha256 {hashlib.sha256(content).hexdigest()[:16]}, {len(content)} bytes"


def _applied_text(done: SyncResult, scanned: LocalScan) -> str:
    from windlass.cli.gateway_output import with_flags

    applied, plan = done.applied, done.planned.plan
    warnings = (*plan.warnings, *done.planned.warnings, *applied.warnings)
    lines = [f"warning: {with_flags(text)}" for text in warnings]
    lines.append(
        f"{plan.gateway}: {plan.from_commit[:7] or 'nothing'} -> {plan.to_commit[:7]}, "
        f"{applied.put} written, {applied.deleted} deleted; scan: {scanned.text}"
    )
    return "\n".join(lines)


def _applied_json(done: SyncResult, scanned: LocalScan) -> str:
    import json

    applied, plan = done.applied, done.planned.plan
    return json.dumps(
        {
            "gateway": plan.gateway,
            "fromCommit": plan.from_commit,
            "toCommit": plan.to_commit,
            "planDigest": plan.digest,
            "written": applied.put,
            "deleted": applied.deleted,
            "bytes": applied.bytes_written,
            "scan": scanned.text,
        }
    )


def _drift_text(drift: FileDrift, to: Path) -> str:
    lines = [f"modified: {path}" for path in drift.modified]
    lines += [f"missing: {path}" for path in drift.missing]
    lines += [f"extra: {path}" for path in drift.extra]
    lines.append(
        f"{to}: {len(drift.modified)} modified, {len(drift.missing)} missing, "
        f"{len(drift.extra)} extra"
    )
    return "\n".join(lines)


def _drift_json(drift: FileDrift) -> str:
    import json

    return json.dumps({"modified": drift.modified, "missing": drift.missing, "extra": drift.extra})
