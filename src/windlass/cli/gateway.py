"""`windlass gateway`: the agent's engine on a directory of this machine, without a cluster.

Exit codes: 0 means nothing to do or done, 2 that there is a difference, 1 an error. Results
go to stdout, everything else to stderr.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli.gateway_inputs import Inputs, asks_for_gateway

if TYPE_CHECKING:
    from windlass.cli.gateway_desk import Bench
    from windlass.gateways.agent.engine import Planned, Synced
    from windlass.gateways.decide.drift import Drift

app = typer.Typer(
    name="gateway",
    help="What a gateway's files would be, and are: plan, diff, apply, verify, rollback.",
    no_args_is_help=True,
)

DIFFERENT = 2

Output = Annotated[str, typer.Option("--output", "-o", metavar="text|json", help="How to print.")]
Directory = Annotated[
    Path, typer.Option("--to", metavar="DIR", help="The gateway's data directory.")
]


@app.command()
@asks_for_gateway
def plan(inputs: Inputs, output: Output = "text") -> None:
    """Print what a sync would do; changes nothing."""
    import asyncio

    from windlass.gateways.decide.plan import to_json

    _check(output)
    planned = asyncio.run(_planned(inputs))
    _print(to_json(planned.plan).decode() if output == "json" else _plan_text(planned))
    sys.exit(DIFFERENT if planned.plan.ops else 0)


@app.command()
@asks_for_gateway
def diff(inputs: Inputs) -> None:
    """Print how every file would change; binary files by digest and size."""
    import asyncio

    sys.exit(DIFFERENT if asyncio.run(_diffed(inputs)) else 0)


@app.command()
@asks_for_gateway
def apply(
    inputs: Inputs,
    allow_mass_delete: Annotated[
        str, typer.Option(metavar="SHA", help="This commit may delete many files.")
    ] = "",
    scan: Annotated[
        str, typer.Option(metavar="URL", help="Then have the gateway at this address read them.")
    ] = "",
    output: Output = "text",
) -> None:
    """Bring the files onto the disk, as the agent would; can be undone with rollback."""
    import asyncio

    from windlass.base.errors import WindlassError

    _check(output)
    if scan and inputs.token_file is None:
        raise WindlassError("Usage", "--scan needs --token-file")
    done, scanned = asyncio.run(_applied(inputs, allow_mass_delete, scan))
    _print(_applied_json(done, scanned) if output == "json" else _applied_text(done, scanned))


@app.command()
def verify(
    to: Directory,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Pattern whose files are not ours, beside the usual; repeatable."),
    ] = None,
    output: Output = "text",
) -> None:
    """Compare every synced file with what the last sync left, by content."""
    _check(output)
    found = _verified(to, exclude or [])
    _print(_drift_json(found) if output == "json" else _drift_text(found, to))
    sys.exit(DIFFERENT if found.found else 0)


@app.command()
def rollback(to: Directory) -> None:
    """Undo the last apply; a second rollback undoes the first."""
    import asyncio

    _print(asyncio.run(_rolled_back(to)))


def _check(output: str) -> None:
    from windlass.base.errors import WindlassError

    if output not in ("text", "json"):
        raise WindlassError("Usage", "--output is text or json")


async def _planned(inputs: Inputs) -> Planned:
    from windlass.cli import gateway_desk as desk

    asked, git = desk.understood(inputs), desk.git_of(inputs)
    order = await desk.ordered(inputs, asked, git)
    with desk.opened(inputs.to, git, asked.repo) as bench:
        return await bench.engine.plan(order)


async def _diffed(inputs: Inputs) -> bool:
    from windlass.cli import gateway_desk as desk

    asked, git = desk.understood(inputs), desk.git_of(inputs)
    order = await desk.ordered(inputs, asked, git)
    with desk.opened(inputs.to, git, asked.repo) as bench:
        planned = await bench.engine.plan(order)
        _print_diff(bench, planned)
        return bool(planned.plan.ops)


async def _applied(inputs: Inputs, allowed: str, scan: str) -> tuple[Synced, str]:
    from windlass.cli import gateway_desk as desk
    from windlass.gateways.agent.interrupt import Interrupt
    from windlass.gateways.decide.metadata import Access

    asked, git = desk.understood(inputs), desk.git_of(inputs)
    order = await desk.ordered(inputs, asked, git, allowed)
    with desk.opened(inputs.to, git, asked.repo) as bench:
        work = desk.work_of(bench, scan, inputs.token_file)
        await work.start()
        done = await work.sync(order, Interrupt(), trigger=work.memory.trigger)
        if not scan:
            return done, "not asked for"
        result = await work.scan(Access(), asked.policy, is_booting=False)
        return done, result.text or "nothing to read"


async def _rolled_back(to: Path) -> str:
    from windlass.cli import gateway_desk as desk
    from windlass.git.child import Git

    with desk.opened(to, Git()) as bench:
        work = desk.work_of(bench, "", None)
        await work.start()
        before = work.holding
        # The value an agent has heeded stays heeded.
        if not await work.rollback(work.memory.rollback, work.memory.trigger):
            return f"{to}: nothing to roll back"
        after = work.holding
    old = before.version.commit[:7] if before is not None else "nothing"
    new = after.version.commit[:7] if after is not None else "what was there before"
    return f"{to}: from {old} back to {new}"


def _verified(to: Path, exclude: list[str]) -> Drift:
    from windlass.base.errors import WindlassError
    from windlass.cli import gateway_desk as desk
    from windlass.gateways.agent import comparing
    from windlass.git.child import Git

    excludes = desk.excludes_of(exclude)
    with desk.opened(to, Git()) as bench:
        manifest = bench.applier.manifest()
        if manifest is None:
            raise WindlassError("NothingSynced", f"{to} holds nothing that was synced")
        return comparing.compared(bench.applier, None, manifest, excludes, everything=True)


def _plan_text(planned: Planned) -> str:
    plan, signs = planned.plan, {"mkdir": "+", "delete": "-", "rmdir": "-"}
    lines = []
    for op in plan.ops:
        is_new = op.path not in planned.live.files
        sign = signs.get(op.op) or ("+" if is_new else "~")
        slash = "/" if op.op in ("mkdir", "rmdir") else ""
        altered = f" [{', '.join(op.transforms)}]" if op.transforms else ""
        lines.append(f"{sign} {op.path}{slash}{altered}")
    lines += [f"skipped: {one.path}: {one.why}" for one in plan.skipped]
    lines += [f"warning: {text}" for text in (*plan.warnings, *planned.warnings)]
    lines += [f"held: {guard.reason}: {guard.message}" for guard in plan.guards]
    counts = plan.counts()
    scans = ", ".join(plan.scans) or "none"
    lines.append(
        f"{plan.gateway}: {plan.from_commit[:7] or 'nothing'} -> {plan.to_commit[:7]}, "
        f"{counts.get('put', 0)} to write, {counts.get('delete', 0)} to delete, scans: {scans}"
    )
    lines.append(f"digest {plan.digest}")
    return "\n".join(lines)


def _print(text: str) -> None:
    """Print a result; names and contents come from a repository, and no terminal obeys them."""
    from windlass.base import redaction

    typer.echo(redaction.visible(text))


def _print_diff(bench: Bench, planned: Planned) -> None:
    for op in planned.plan.ops:
        if op.op in ("put", "delete"):
            new = bench.engine.content(planned, op.path) if op.op == "put" else b""
            there = op.path in planned.live.files
            old = bench.applier.tree.read(op.path) if there else b""
            _print(_file_diff(op.path, old, new, is_new=not there, goes=op.op == "delete"))


def _file_diff(path: str, old: bytes | None, new: bytes | None, *, is_new: bool, goes: bool) -> str:
    import difflib

    source, sink = ("/dev/null" if is_new else f"a/{path}"), ("/dev/null" if goes else f"b/{path}")
    before, after = _lines(old), _lines(new)
    if before is None or after is None:
        return f"--- {source}\n+++ {sink}\nbinary: {_weight(old)} -> {_weight(new)}"
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


def _weight(content: bytes | None) -> str:
    import hashlib

    if content is None:
        return "large"
    if not content:
        return "nothing"
    return f"sha256 {hashlib.sha256(content).hexdigest()[:16]}, {len(content)} bytes"


def _applied_text(done: Synced, scanned: str) -> str:
    applied, plan = done.applied, done.planned.plan
    lines = [
        f"warning: {text}" for text in (*plan.warnings, *done.planned.warnings, *applied.warnings)
    ]
    lines.append(
        f"{plan.gateway}: {plan.from_commit[:7] or 'nothing'} -> {plan.to_commit[:7]}, "
        f"{applied.put} written, {applied.deleted} deleted; scan: {scanned}"
    )
    return "\n".join(lines)


def _applied_json(done: Synced, scanned: str) -> str:
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
            "scan": scanned,
        }
    )


def _drift_text(found: Drift, to: Path) -> str:
    lines = [f"modified: {path}" for path in found.modified]
    lines += [f"missing: {path}" for path in found.missing]
    lines += [f"extra: {path}" for path in found.extra]
    lines.append(
        f"{to}: {len(found.modified)} modified, {len(found.missing)} missing, "
        f"{len(found.extra)} extra"
    )
    return "\n".join(lines)


def _drift_json(found: Drift) -> str:
    import json

    return json.dumps({"modified": found.modified, "missing": found.missing, "extra": found.extra})
