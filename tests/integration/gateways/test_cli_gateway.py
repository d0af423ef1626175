"""`windlass gateway` as a person at a desk uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.gateways.engine_harness import CORE, SERVICE, SITE, read_files
from tests.support.gateways.mock_gateway import TOKEN
from tests.support.gateways.mock_gateway import running_gateway as gateway_serving
from tests.support.git.http_server import (
    RunningGitServer,
    branch_tips,
    commit_files,
    running_git_server,
)
from tests.support.processes import windlass_command
from windlass.base.errors import WindlassError
from windlass.cli.gateway import app

VIEW = "projects/line/view/view.json"


@dataclass
class Shell:
    """A terminal with a repository and a data directory."""

    served: RunningGitServer
    repository: Path
    directory: Path

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def windlass(self, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.directory / "cache"), **variables}
        return windlass_command.run(["gateway", *args], environment, cwd=self.data)

    def run(self, command: str, *more: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """One of the commands that ask the repository."""
        return self.windlass(
            command,
            f"--repo={self.served.server.url('site')}",
            "--ref=main",
            f"--service-path={SERVICE}",
            "--insecure-host=127.0.0.1",
            f"--to={self.data}",
            *more,
            **variables,
        )

    def token(self, text: str = TOKEN) -> str:
        """The option that names a file with a token."""
        path = self.directory / "token"
        path.write_text(text)
        return f"--token-file={path}"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A repository on a server, and an empty data directory."""
    (tmp_path / "data").mkdir()
    with running_git_server(tmp_path / "srv") as served:
        yield Shell(served, served.create("site", SITE), tmp_path)


def test_plan_apply_verify_rollback(shell: Shell) -> None:
    """The whole day of a person: look, do, look again, undo."""
    looked = shell.run("plan")
    assert looked.returncode == 2, looked.stderr
    assert f"+ {VIEW}" in looked.stdout
    assert "6 to write, 0 to delete, scans: projects, config" in looked.stdout
    assert list(shell.data.iterdir()) == []
    done = shell.run("apply")
    assert (done.returncode, done.stderr) == (0, "")
    assert "6 written, 0 deleted" in done.stdout
    assert shell.run("plan").returncode == 0
    checked = shell.windlass("verify", f"--to={shell.data}")
    assert (checked.returncode, "0 modified" in checked.stdout) == (0, True)
    before = read_files(shell.data)
    commit_files(shell.repository, {f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}'})
    assert shell.run("apply").returncode == 0
    assert read_files(shell.data) != before
    undone = shell.windlass("rollback", f"--to={shell.data}")
    assert undone.returncode == 0, undone.stderr
    assert read_files(shell.data) == before


def test_an_untouched_directory_has_nothing_to_roll_back(shell: Shell) -> None:
    """Nothing to do is said and is no error."""
    undone = shell.windlass("rollback", f"--to={shell.data}")
    assert (undone.returncode, undone.stderr) == (0, "")
    assert undone.stdout == f"{shell.data}: nothing to roll back\n"


def test_a_difference_is_shown(shell: Shell) -> None:
    """Text as a unified diff, anything else by digest and size."""
    shell.run("apply")
    commit_files(
        shell.repository,
        {
            f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}',
            f"{SERVICE}/projects/line/icon.png": "\x00PNG",
            f"{SERVICE}/projects/line/project.json": None,
        },
    )
    shown = shell.run("diff")
    assert shown.returncode == 2, shown.stderr
    lines = shown.stdout.splitlines()
    assert '-{"root": {"x": 1}}' in lines
    assert '+{"root": {"x": 2}}' in lines
    assert "--- a/projects/line/project.json" in lines
    assert "+++ /dev/null" in lines
    assert any(line.startswith("binary: empty -> sha256 ") for line in lines)
    assert read_files(shell.data)[VIEW] == b'{"root": {"x": 1}}'


def test_no_terminal_obeys_a_repository(shell: Shell) -> None:
    """Escape sequences in contents, names and errors are shown, never sent."""
    evil, shown_evil = "\x1b]0;owned\x07\x9b2J\u202e", "\\u001b]0;owned\\u0007\\u009b2J\\u202e"
    commit_files(shell.repository, {f"{SERVICE}/{VIEW}": f"{evil}\n"})
    shown = shell.run("diff")
    assert f"+{shown_evil}" in shown.stdout.splitlines()
    named = f"{SERVICE}/projects/line/a\u202eb.txt"
    commit_files(shell.repository, {f"{SERVICE}/{VIEW}": "{}", named: "x\n"})
    plan = shell.run("plan")
    assert "a\\u202eb.txt" in plan.stdout + plan.stderr
    missing = shell.windlass("verify", f"--to={shell.directory / evil}")
    assert shown_evil in missing.stderr
    for done in (shown, plan, missing):
        assert not set(evil) & {"\x1b", "\x07", "\x9b", "\u202e"} & set(done.stdout + done.stderr)


def test_a_mistyped_mode_leaves_the_gateway_as_it_is(shell: Shell) -> None:
    """The files of the mode stay, and the message lists the modes that exist."""
    modes = f"{SERVICE}/config/resources"
    commit_files(
        shell.repository,
        {
            f"{modes}/dev/ignition/db/config.json": "{}",
            f"{modes}/prd/ignition/db/config.json": "{}",
        },
    )
    assert shell.run("apply", "--deployment-mode=dev").returncode == 0
    before = read_files(shell.data)
    assert f"{CORE}/ignition/db/config.json" in before
    refused = shell.run("apply", "--deployment-mode=devv")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "devv not found in services/site/config/resources; available: dev, prd" in refused.stderr
    assert "(SourceMissing)" in refused.stderr
    assert read_files(shell.data) == before


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--annotation=service-pth=x", "unknown key 'service-pth'; supported: "),
        ("--repo=/nope", "--repo: /nope is not a directory; specify a URL or a bare repository"),
    ],
)
def test_a_mistyped_option_is_named(shell: Shell, option: str, words: str) -> None:
    """What cannot be meant is refused with what can be."""
    refused = shell.run("plan", option)
    assert refused.returncode == 1, refused
    assert words in refused.stderr


def test_an_exclude_that_matches_nothing_is_shown(shell: Shell) -> None:
    """A pattern that a person wrote and that covers no file is named; the usual ones are not."""
    shown = shell.run("plan", "--exclude=**/nothing-like-this", "--exclude=**/view.json")
    unused = [line for line in shown.stdout.splitlines() if line.startswith("unused exclude")]
    assert unused == ["unused exclude: **/nothing-like-this"]


def test_a_plan_loads_no_client_and_no_metrics(shell: Shell) -> None:
    """Half of the time of a plan went into modules that it does not use."""
    script = (
        "import sys\n"
        "from windlass.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*{'httpx2', 'prometheus_client', 'rich'} & sys.modules.keys(), file=sys.stderr)"
    )
    url = shell.served.server.url("site")
    options = [f"--repo={url}", "--ref=main", f"--service-path={SERVICE}", f"--to={shell.data}"]
    command = [sys.executable, "-c", script, "gateway", "plan", *options]
    environment = {**os.environ, "XDG_CACHE_HOME": str(shell.directory / "cache")}
    done = subprocess.run(
        [*command, "--insecure-host=127.0.0.1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "to write" in done.stdout, done.stderr
    assert done.stderr.strip() == ""


def test_verify_names_what_differs(shell: Shell) -> None:
    """Modified, missing and extra files, with exit code 2."""
    shell.run("apply")
    (shell.data / VIEW).write_text("edited")
    (shell.data / "projects/line/project.json").unlink()
    for name in ("projects/line/strange", "projects/line/own", "projects/tag-x/MQTT Engine/a"):
        (shell.data / name).parent.mkdir(parents=True, exist_ok=True)
        (shell.data / name).write_text("?")
    found = shell.windlass("verify", f"--to={shell.data}", "--exclude=**/own", "-o", "json")
    assert found.returncode == 2
    assert json.loads(found.stdout) == {
        "modified": [VIEW],
        "missing": ["projects/line/project.json"],
        "extra": ["projects/line/strange"],
    }


def test_an_ignition_sync_file_says_it_all(shell: Shell) -> None:
    """Repository, ref, profiles and policies come from the file; options win."""
    cr = shell.directory / "cr.yaml"
    url = shell.served.server.url("site")
    cr.write_text(f"""\
apiVersion: sync.ignition.io/v1alpha1
kind: IgnitionSync
metadata: {{name: site, namespace: plant}}
spec:
  git: {{repo: "{url}", ref: main}}
  gateway: {{apiKeySecretRef: {{name: key}}}}
  siteNumber: "7"
  safety: {{maxFileSize: "10"}}
  profiles:
    line:
      mappings:
      - {{source: tpl, destination: "projects/{{{{.GatewayName}}}}", template: true}}
""")
    commit_files(shell.repository, {"tpl/a.txt": "{{.SiteNumber}}{{.Namespace}}"})
    args = [f"--cr={cr}", f"--to={shell.data}", "--profile=line", "--insecure-host=127.0.0.1"]
    refused = shell.windlass("apply", *args)
    assert (refused.returncode, "maxFileSize is 10" in refused.stderr) == (1, True)
    cr.write_text(cr.read_text().replace('"10"', '"1Mi"'))
    done = shell.windlass("apply", *args, "--gateway-name=north", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["written"] == 1
    assert read_files(shell.data) == {"projects/north/a.txt": b"7plant"}


@pytest.mark.parametrize(
    ("typo", "field"),
    [
        ("siteNumer: x", "spec.siteNumer"),
        ("normalize: {systemNam: true}", "spec.normalize.systemNam"),
        (
            "profiles: {p: {mappings: [{source: a, destination: b, requird: true}]}}",
            "spec.profiles[p].mappings[0].requird",
        ),
    ],
)
def test_a_file_with_an_unknown_field_is_refused(shell: Shell, typo: str, field: str) -> None:
    """The API server would warn of it; ignored, the files would be others than meant."""
    cr = shell.directory / "cr.yaml"
    cr.write_text(f"""\
kind: IgnitionSync
metadata: {{name: site, namespace: plant}}
spec:
  git: {{repo: "{shell.served.server.url("site")}", ref: main}}
  gateway: {{apiKeySecretRef: {{name: key}}}}
  {typo}
""")
    refused = shell.run("apply", f"--cr={cr}")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"windlass: --cr: {cr}: unknown field {field} (Usage)\n"
    assert read_files(shell.data) == {}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--scan=http://127.0.0.1:8088"], "--scan requires --token-file"),
        (["--scan=127.0.0.1:8088", "TOKEN"], "--scan: "),
        (["--scan=http://10.0.0.1", "TOKEN"], "--scan: "),
        (["--token-file=/nonexistent"], "--token-file: /nonexistent: No such file"),
        (["--token-file=/dev/null"], "--token-file: /dev/null must contain one line"),
        (["--exclude=!x"], "--exclude: "),
        (["--allow-mass-delete=abc1234"], "--allow-mass-delete: specify the full commit id"),
        ([f"--allow-mass-delete={'1' * 40}"], "--allow-mass-delete: main resolves to commit "),
        (["--output=yaml"], "--output: "),
    ],
)
def test_flags_are_checked_before_anything_is_written(
    shell: Shell, args: list[str], words: str
) -> None:
    """A mistake costs a second try and never half a result."""
    refused = shell.run("apply", *(shell.token() if one == "TOKEN" else one for one in args))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"windlass: {words}")
    assert list(shell.data.iterdir()) == []


def test_the_result_is_printed_also_when_the_scan_fails(shell: Shell) -> None:
    """The files are in place; the error says what to do in the words of the command line."""
    with gateway_serving(shell.data, token=TOKEN) as gateway:
        done = shell.run("apply", f"--scan={gateway.url}", shell.token("agent:wrong"))
        assert done.returncode == 1
        assert "6 written, 0 deleted; scan: failed (ScanUnauthorized)" in done.stdout
        assert "in --token-file is wrong" in done.stderr
        assert "while --scan uses http" in done.stderr
        assert "apiKeySecretRef" not in done.stderr
        again = shell.run("apply", f"--scan={gateway.url}", shell.token())
        assert "0 written, 0 deleted; scan: projects=200 config=200" in again.stdout


def test_a_rollback_is_scanned_on_demand(shell: Shell) -> None:
    """The gateway reads the old files again; a failing scan comes after the result."""
    shell.run("apply")
    commit_files(shell.repository, {f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}'})
    with gateway_serving(shell.data, token=TOKEN) as gateway:
        shell.run("apply", f"--scan={gateway.url}", shell.token())
        undone = shell.windlass(
            "rollback", f"--to={shell.data}", f"--scan={gateway.url}", shell.token()
        )
        assert (undone.returncode, undone.stderr) == (0, "")
        assert undone.stdout.endswith("; scan: projects=200\n")
        assert gateway.posts == {"projects": 2, "config": 1}
        failed = shell.windlass(
            "rollback", f"--to={shell.data}", f"--scan={gateway.url}", shell.token("agent:wrong")
        )
        assert failed.returncode == 1
        assert "scan: failed (ScanUnauthorized)" in failed.stdout


def test_verify_agrees_with_plan(shell: Shell) -> None:
    """Stamps of the gateway and files that the last apply left out are no difference to either."""
    shell.run("apply", "--exclude=projects/own")
    stamped = shell.data / "projects/line/view/resource.json"
    body = json.loads(stamped.read_text())
    body["attributes"]["lastModification"] = {"actor": "someone", "timestamp": "now"}
    stamped.write_text(json.dumps(body))
    (shell.data / "projects/own").write_text("?")
    verified = shell.windlass("verify", f"--to={shell.data}")
    assert (verified.returncode, verified.stderr) == (0, "")
    assert shell.run("plan", "--exclude=projects/own").returncode == 0
    body["scope"] = "A"
    stamped.write_text(json.dumps(body))
    assert shell.windlass("verify", f"--to={shell.data}").returncode == 2
    assert shell.run("plan", "--exclude=projects/own").returncode == 2


def test_an_interrupted_apply_is_mentioned(shell: Shell) -> None:
    """By the plan that finds it and by the apply that ends it, and by nobody afterwards."""
    killed = shell.run("apply", WINDLASS_FAILPOINTS="gateways.journal.forward.after=kill")
    assert killed.returncode == -signal.SIGKILL
    commit = branch_tips(shell.repository)["main"][:7]
    planned = shell.run("plan", "-o", "json")
    assert json.loads(planned.stdout)["toCommit"].startswith(commit)
    assert planned.stderr == (
        f"windlass: the apply of {commit} was interrupted; "
        "the next apply or rollback completes or undoes it first\n"
    )
    done = shell.run("apply")
    assert done.returncode == 0
    assert done.stderr == (
        f"windlass: the apply of {commit} was interrupted and has been completed\n"
    )
    assert shell.run("plan").stderr == ""


def test_messages_name_flags(shell: Shell) -> None:
    """Nobody has to translate an annotation; JSON plans are those of the agents."""
    many = {f"{SERVICE}/projects/line/many/{n}.py": "x\n" for n in range(40)}
    commit_files(shell.repository, many)
    shell.run("apply")
    commit = commit_files(shell.repository, dict.fromkeys(many))
    assert f"To allow it, add --allow-mass-delete={commit}\n" in shell.run("plan").stdout
    assert "ignition-sync.io/allow-mass-delete" in shell.run("plan", "-o", "json").stdout
    held = shell.run("apply")
    assert f"add --allow-mass-delete={commit} (MassDeleteGuard)" in held.stderr
    wrong = {
        "--deployment-mode=x": "--deployment-mode: x not found",
        "--service-path=x": "--service-path: directory x not found",
        "--profile=x": "--profile: 'x' not found; available: none",
        "--annotation=system-name={{.X}}": "use --annotation system-name-template=TEMPLATE",
    }
    for option, words in wrong.items():
        assert words in shell.run("plan", option).stderr


def test_a_gateway_is_scanned_on_demand(shell: Shell) -> None:
    """With an address and a token the gateway reads what was applied."""
    token = shell.directory / "token"
    token.write_text(TOKEN)
    with gateway_serving(shell.data, token=TOKEN) as gateway:
        done = shell.run("apply", f"--scan={gateway.url}", f"--token-file={token}")
        assert (done.returncode, done.stderr) == (0, "")
        assert "scan: projects=200 config=200" in done.stdout
        assert gateway.posts == {"projects": 1, "config": 1}
        again = shell.run("apply", f"--scan={gateway.url}", f"--token-file={token}")
        assert "scan: not needed" in again.stdout
        assert gateway.posts == {"projects": 1, "config": 1}


def test_the_token_to_scan_with_is_never_deleted(shell: Shell) -> None:
    """The gateway made it in a directory we manage; plan and apply spare it alike."""
    token = shell.directory / "token"
    token.write_text(TOKEN)
    shell.run("apply")
    tokens = shell.data / CORE / "ignition/api-token"
    for name in ("agent", "other"):
        (tokens / name).mkdir(parents=True)
        (tokens / name / "config.json").write_text("{}")
    commit_files(shell.repository, {f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}'})
    planned = shell.run("plan", f"--token-file={token}").stdout
    assert "- config/resources/core/ignition/api-token/other/config.json" in planned
    assert "api-token/agent" not in planned
    with gateway_serving(shell.data, token=TOKEN) as gateway:
        done = shell.run("apply", f"--scan={gateway.url}", f"--token-file={token}")
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tokens.iterdir()] == ["agent"]


@pytest.mark.scenario("G42")
def test_many_deletes_need_a_word(shell: Shell) -> None:
    """The commit has to be named."""
    many = {f"{SERVICE}/projects/line/many/{n}.py": "x\n" for n in range(40)}
    commit_files(shell.repository, many)
    shell.run("apply")
    commit = commit_files(shell.repository, dict.fromkeys(many))
    assert "held: MassDeleteGuard" in shell.run("plan").stdout
    held = shell.run("apply")
    assert (held.returncode, "MassDeleteGuard" in held.stderr) == (1, True)
    allowed = shell.run("apply", f"--allow-mass-delete={commit}")
    assert (allowed.returncode, "40 deleted" in allowed.stdout) == (0, True)


def test_a_directory_of_this_machine_is_a_repository(shell: Shell) -> None:
    """Without a server; a relative path is enough."""
    done = shell.windlass(
        "plan",
        f"--repo={shell.repository}",
        "--ref=refs/heads/main",
        f"--service-path={SERVICE}",
        f"--to={shell.data}",
        "-o",
        "json",
    )
    assert done.returncode == 2, done.stderr
    plan = json.loads(done.stdout)
    assert {op["path"] for op in plan["ops"] if op["op"] == "put"} >= {
        VIEW,
        f"{CORE}/config-mode.json",
    }


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["plan", "--to=/nonexistent", "--repo=https://h/x.git", "--ref=1" + "0" * 39], "--to"),
        (["plan", "--to=."], "--repo and --ref"),
        (["plan", "--to=.", "--cr=/nonexistent"], "No such file"),
        (["plan", "--to=.", "--repo=https://u:secret-word@h/x", "--ref=main"], "--repo"),
        (["verify", "--to=."], "contains no synced files"),
        (["rollback", "--to=/nonexistent"], "not a directory"),
        (["apply", "--to=.", "--repo=x", "--ref=y", "--scan=http://127.0.0.1:1"], "--token-file"),
    ],
)
def test_a_mistake_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], words: str
) -> None:
    """What is wrong and where, and never a credential."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = CliRunner().invoke(app, args)
    assert isinstance(done.exception, WindlassError)
    assert words in done.exception.message
    assert "secret-word" not in done.exception.message


def test_an_error_is_one_line_and_exit_code_1(shell: Shell) -> None:
    """The message of the error, without a trace."""
    done = shell.run("plan", "--ref=nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "windlass: branch or tag nowhere not found (RefNotFound)\n"
