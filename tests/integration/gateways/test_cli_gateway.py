"""`windlass gateway` as an operator uses it on the command line."""

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
        """Run a command that reads the repository."""
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
        """The option for a file with a token."""
        path = self.directory / "token"
        path.write_text(text)
        return f"--token-file={path}"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A repository on a server, and an empty data directory."""
    (tmp_path / "data").mkdir()
    with running_git_server(tmp_path / "srv") as served:
        yield Shell(served, served.create("site", SITE), tmp_path)


def test_plan_apply_verify_and_rollback_work_together(shell: Shell) -> None:
    """The usual order of commands."""
    planned = shell.run("plan")
    assert planned.returncode == 2, planned.stderr
    assert f"+ {VIEW}" in planned.stdout
    assert "6 to write, 0 to delete, scans: projects, config" in planned.stdout
    assert list(shell.data.iterdir()) == []
    applied = shell.run("apply")
    assert (applied.returncode, applied.stderr) == (0, "")
    assert "6 written, 0 deleted" in applied.stdout
    assert shell.run("plan").returncode == 0
    verified = shell.windlass("verify", f"--to={shell.data}")
    assert (verified.returncode, "0 modified" in verified.stdout) == (0, True)
    before = read_files(shell.data)
    commit_files(shell.repository, {f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}'})
    assert shell.run("apply").returncode == 0
    assert read_files(shell.data) != before
    rolled_back = shell.windlass("rollback", f"--to={shell.data}")
    assert rolled_back.returncode == 0, rolled_back.stderr
    assert read_files(shell.data) == before


def test_an_untouched_directory_has_nothing_to_roll_back(shell: Shell) -> None:
    """Rolling it back prints so, and is not an error."""
    rolled_back = shell.windlass("rollback", f"--to={shell.data}")
    assert (rolled_back.returncode, rolled_back.stderr) == (0, "")
    assert rolled_back.stdout == f"{shell.data}: nothing to roll back\n"


def test_diff_shows_differences(shell: Shell) -> None:
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
    diff = shell.run("diff")
    assert diff.returncode == 2, diff.stderr
    lines = diff.stdout.splitlines()
    assert '-{"root": {"x": 1}}' in lines
    assert '+{"root": {"x": 2}}' in lines
    assert "--- a/projects/line/project.json" in lines
    assert "+++ /dev/null" in lines
    assert any(line.startswith("binary: empty -> sha256 ") for line in lines)
    assert read_files(shell.data)[VIEW] == b'{"root": {"x": 1}}'


def test_escape_sequences_of_a_repository_are_not_printed(shell: Shell) -> None:
    """In contents, names and errors they are shown escaped."""
    sequence, escaped = "\x1b]0;owned\x07\x9b2J\u202e", "\\u001b]0;owned\\u0007\\u009b2J\\u202e"
    commit_files(shell.repository, {f"{SERVICE}/{VIEW}": f"{sequence}\n"})
    diff = shell.run("diff")
    assert f"+{escaped}" in diff.stdout.splitlines()
    path = f"{SERVICE}/projects/line/a\u202eb.txt"
    commit_files(shell.repository, {f"{SERVICE}/{VIEW}": "{}", path: "x\n"})
    plan = shell.run("plan")
    assert "a\\u202eb.txt" in plan.stdout + plan.stderr
    missing = shell.windlass("verify", f"--to={shell.directory / sequence}")
    assert escaped in missing.stderr
    for finished in (diff, plan, missing):
        assert (
            not set(sequence)
            & {"\x1b", "\x07", "\x9b", "\u202e"}
            & set(finished.stdout + finished.stderr)
        )


def test_a_mistyped_mode_changes_nothing(shell: Shell) -> None:
    """The files of the mode are kept, and the message lists the available modes."""
    resources = f"{SERVICE}/config/resources"
    commit_files(
        shell.repository,
        {
            f"{resources}/dev/ignition/db/config.json": "{}",
            f"{resources}/prd/ignition/db/config.json": "{}",
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
        ("--annotation=inject=true", "--annotation: inject has no effect here; remove it"),
        ("--annotation=cr-name=x", "--annotation: cr-name has no effect here; use --cr"),
        ("--annotation=allow-mass-delete=x", "use --allow-mass-delete of apply"),
        ("--repo=/nope", "--repo: /nope is not a directory; specify a URL or a bare repository"),
    ],
)
def test_a_mistyped_option_is_named(shell: Shell, option: str, words: str) -> None:
    """The message has the supported values."""
    refused = shell.run("plan", option)
    assert refused.returncode == 1, refused
    assert words in refused.stderr


def test_an_exclude_that_matches_nothing_is_reported(shell: Shell) -> None:
    """Only patterns of the user, not the built-in ones."""
    planned = shell.run("plan", "--exclude=**/nothing-like-this", "--exclude=**/view.json")
    unused = [line for line in planned.stdout.splitlines() if line.startswith("unused exclude")]
    assert unused == ["unused exclude: **/nothing-like-this"]


@pytest.mark.parametrize("command", ["plan", "verify"])
def test_a_command_without_a_scan_loads_no_client_and_no_metrics(
    shell: Shell, command: str
) -> None:
    """Importing unused modules took half of the time of a plan."""
    script = (
        "import sys\n"
        "from windlass.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*{'httpx2', 'prometheus_client', 'rich'} & sys.modules.keys(), file=sys.stderr)"
    )
    shell.run("apply")
    options = [f"--to={shell.data}"]
    if command == "plan":
        options += [f"--repo={shell.served.server.url('site')}", "--ref=main"]
        options += [f"--service-path={SERVICE}", "--insecure-host=127.0.0.1"]
    finished = subprocess.run(
        [sys.executable, "-c", script, "gateway", command, *options],
        env={**os.environ, "XDG_CACHE_HOME": str(shell.directory / "cache")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert {"plan": "0 to write", "verify": "0 modified"}[command] in finished.stdout
    assert finished.stderr.strip() == ""


def test_verify_lists_differences(shell: Shell) -> None:
    """Modified, missing and extra files, with exit code 2."""
    shell.run("apply")
    (shell.data / VIEW).write_text("edited")
    (shell.data / "projects/line/project.json").unlink()
    for name in ("projects/line/strange", "projects/line/own", "projects/tag-x/MQTT Engine/a"):
        (shell.data / name).parent.mkdir(parents=True, exist_ok=True)
        (shell.data / name).write_text("?")
    verified = shell.windlass("verify", f"--to={shell.data}", "--exclude=**/own", "-o", "json")
    assert verified.returncode == 2
    assert json.loads(verified.stdout) == {
        "modified": [VIEW],
        "missing": ["projects/line/project.json"],
        "extra": ["projects/line/strange"],
    }


def test_an_ignition_sync_file_configures_the_command(shell: Shell) -> None:
    """Repository, ref, profiles and policies come from the file; options take precedence."""
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
    assert (refused.returncode, "maxFileSize in the file of --cr is 10" in refused.stderr) == (
        1,
        True,
    )
    cr.write_text(cr.read_text().replace('"10"', '"1Mi"'))
    applied = shell.windlass("apply", *args, "--gateway-name=north", "-o", "json")
    assert applied.returncode == 0, applied.stderr
    assert json.loads(applied.stdout)["written"] == 1
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
    """The API server would only warn; ignoring the field would sync other files than intended."""
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
        (["--profile=nope"], "--profile: 'nope' not found; available: none (NoRouting)"),
        (["--gateway-name=a/b"], "--gateway-name: 'a/b' must consist of"),
        (["--deployment-mode=core"], "--deployment-mode: "),
        (["--git-auth=."], "--git-auth: .: no credentials found; accepted keys: "),
    ],
)
def test_flags_are_checked_before_anything_is_written(
    shell: Shell, args: list[str], words: str
) -> None:
    """An invalid flag never leaves a partial result."""
    refused = shell.run("apply", *(shell.token() if arg == "TOKEN" else arg for arg in args))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"windlass: {words}")
    assert list(shell.data.iterdir()) == []


def test_the_result_is_printed_even_if_the_scan_fails(shell: Shell) -> None:
    """The files are in place; the error names flags of the command line."""
    with gateway_serving(shell.data, token=TOKEN) as gateway:
        applied = shell.run("apply", f"--scan={gateway.url}", shell.token("agent:wrong"))
        assert applied.returncode == 1
        assert "6 written, 0 deleted; scan: failed (ScanUnauthorized)" in applied.stdout
        assert "in --token-file is wrong" in applied.stderr
        assert "while --scan uses http" in applied.stderr
        assert "apiKeySecretRef" not in applied.stderr
        second = shell.run("apply", f"--scan={gateway.url}", shell.token())
        assert "0 written, 0 deleted; scan: projects=200 config=200" in second.stdout


def test_a_rollback_is_scanned_on_demand(shell: Shell) -> None:
    """The gateway reads the old files again; a failed scan is reported after the result."""
    shell.run("apply")
    commit_files(shell.repository, {f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}'})
    with gateway_serving(shell.data, token=TOKEN) as gateway:
        shell.run("apply", f"--scan={gateway.url}", shell.token())
        rolled_back = shell.windlass(
            "rollback", f"--to={shell.data}", f"--scan={gateway.url}", shell.token()
        )
        assert (rolled_back.returncode, rolled_back.stderr) == (0, "")
        assert rolled_back.stdout.endswith("; scan: projects=200\n")
        assert gateway.posts == {"projects": 2, "config": 1}
        failed = shell.windlass(
            "rollback", f"--to={shell.data}", f"--scan={gateway.url}", shell.token("agent:wrong")
        )
        assert failed.returncode == 1
        assert "scan: failed (ScanUnauthorized)" in failed.stdout


def test_verify_agrees_with_plan(shell: Shell) -> None:
    """Neither reports stamps of the gateway or files that the last apply excluded."""
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


def test_an_interrupted_apply_is_reported(shell: Shell) -> None:
    """By the plan that detects it and the apply that completes it, and not afterwards."""
    killed = shell.run("apply", WINDLASS_FAILPOINTS="gateways.journal.forward.after=kill")
    assert killed.returncode == -signal.SIGKILL
    commit = branch_tips(shell.repository)["main"][:7]
    planned = shell.run("plan", "-o", "json")
    assert json.loads(planned.stdout)["toCommit"].startswith(commit)
    assert planned.stderr == (
        f"windlass: the apply of {commit} was interrupted; "
        "the next apply or rollback completes or undoes it first\n"
    )
    applied = shell.run("apply")
    assert applied.returncode == 0
    assert applied.stderr == (
        f"windlass: the apply of {commit} was interrupted and has been completed\n"
    )
    assert shell.run("plan").stderr == ""


def test_messages_name_flags(shell: Shell) -> None:
    """Instead of annotations; JSON plans are equal to those of the agents."""
    many = {f"{SERVICE}/projects/line/many/{n}.py": "x\n" for n in range(40)}
    commit_files(shell.repository, many)
    shell.run("apply")
    commit = commit_files(shell.repository, dict.fromkeys(many))
    assert f"To allow it, add --allow-mass-delete={commit}\n" in shell.run("plan").stdout
    assert "ignition-sync.io/allow-mass-delete" in shell.run("plan", "-o", "json").stdout
    refused = shell.run("apply")
    assert f"add --allow-mass-delete={commit} (MassDeleteGuard)" in refused.stderr
    wrong = {
        "--deployment-mode=x": "--deployment-mode: x not found",
        "--service-path=x": "--service-path: directory x not found",
        "--profile=x": "--profile: 'x' not found; available: none",
        "--annotation=system-name={{.X}}": "use --annotation system-name-template=TEMPLATE",
    }
    for option, words in wrong.items():
        assert words in shell.run("plan", option).stderr


def test_a_gateway_is_scanned_on_demand(shell: Shell) -> None:
    """With an address and a token the gateway reads the applied files."""
    token = shell.directory / "token"
    token.write_text(TOKEN)
    with gateway_serving(shell.data, token=TOKEN) as gateway:
        applied = shell.run("apply", f"--scan={gateway.url}", f"--token-file={token}")
        assert (applied.returncode, applied.stderr) == (0, "")
        assert "scan: projects=200 config=200" in applied.stdout
        assert gateway.posts == {"projects": 1, "config": 1}
        second = shell.run("apply", f"--scan={gateway.url}", f"--token-file={token}")
        assert "scan: not needed" in second.stdout
        assert gateway.posts == {"projects": 1, "config": 1}


def test_the_api_token_of_the_agent_is_never_deleted(shell: Shell) -> None:
    """The gateway created it in a managed directory; both plan and apply keep it."""
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
        applied = shell.run("apply", f"--scan={gateway.url}", f"--token-file={token}")
    assert (applied.returncode, applied.stderr) == (0, "")
    assert [path.name for path in tokens.iterdir()] == ["agent"]


@pytest.mark.scenario("G42")
def test_many_deletes_need_an_allowance(shell: Shell) -> None:
    """The flag has to name the commit."""
    many = {f"{SERVICE}/projects/line/many/{n}.py": "x\n" for n in range(40)}
    commit_files(shell.repository, many)
    shell.run("apply")
    commit = commit_files(shell.repository, dict.fromkeys(many))
    assert "held: MassDeleteGuard" in shell.run("plan").stdout
    refused = shell.run("apply")
    assert (refused.returncode, "MassDeleteGuard" in refused.stderr) == (1, True)
    allowed = shell.run("apply", f"--allow-mass-delete={commit}")
    assert (allowed.returncode, "40 deleted" in allowed.stdout) == (0, True)


def test_a_local_directory_may_be_the_repository(shell: Shell) -> None:
    """Without a git server."""
    planned = shell.windlass(
        "plan",
        f"--repo={shell.repository}",
        "--ref=refs/heads/main",
        f"--service-path={SERVICE}",
        f"--to={shell.data}",
        "-o",
        "json",
    )
    assert planned.returncode == 2, planned.stderr
    plan = json.loads(planned.stdout)
    assert {step["path"] for step in plan["ops"] if step["op"] == "put"} >= {
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
def test_a_usage_error_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], words: str
) -> None:
    """The message names the flag and the cause, and never a credential."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = CliRunner().invoke(app, args)
    assert isinstance(result.exception, WindlassError)
    assert words in result.exception.message
    assert "secret-word" not in result.exception.message


def test_an_error_is_one_line_and_exit_code_1(shell: Shell) -> None:
    """The message of the error, without a traceback."""
    planned = shell.run("plan", "--ref=nowhere")
    assert (planned.returncode, planned.stdout) == (1, "")
    assert planned.stderr == "windlass: branch or tag nowhere not found (RefNotFound)\n"


def test_verify_agrees_with_plan_about_the_token_to_scan_with(shell: Shell) -> None:
    """The gateway wrote its resource into a managed directory, and a plan never deletes it."""
    shell.run("apply")
    token = shell.data / CORE / "ignition/api-token/agent/config.json"
    token.parent.mkdir(parents=True)
    token.write_text("{}")
    assert shell.run("plan", shell.token()).returncode == 0
    verified = shell.windlass("verify", f"--to={shell.data}", shell.token())
    assert (verified.returncode, verified.stderr) == (0, "")
    other = shell.directory / "other-token"
    other.write_text("other:s3cret")
    assert shell.windlass("verify", f"--to={shell.data}", f"--token-file={other}").returncode == 2


def test_plan_and_verify_keep_every_token_without_a_token_file(shell: Shell) -> None:
    """Its name is unknown then, and any token of the gateway may be the one that scans need."""
    shell.run("apply")
    token = shell.data / CORE / "ignition/api-token/agent/config.json"
    token.parent.mkdir(parents=True)
    token.write_text("{}")
    commit_files(shell.repository, {f"{SERVICE}/{VIEW}": '{"root": {"x": 2}}'})
    assert "api-token" not in shell.run("plan").stdout
    assert shell.windlass("verify", f"--to={shell.data}").returncode == 0
    shell.run("apply")
    assert token.exists()


def test_verify_agrees_with_plan_about_a_mode_file_that_an_overlay_omits(shell: Shell) -> None:
    """The gateway wrote core's own file, which no commit has and no plan deletes."""
    cr = shell.directory / "cr.yaml"
    cr.write_text(f"""\
kind: IgnitionSync
metadata: {{name: site, namespace: plant}}
spec:
  git: {{repo: "{shell.served.server.url("site")}", ref: main}}
  gateway: {{apiKeySecretRef: {{name: key}}}}
  profiles: {{line: {{mappings: [{{source: modes/prd, destination: {CORE}}}]}}}}
""")
    commit_files(shell.repository, {"modes/prd/config-mode.json": "{}", "modes/prd/a.json": "{}"})
    args = [f"--cr={cr}", f"--to={shell.data}", "--profile=line", "--insecure-host=127.0.0.1"]
    assert shell.windlass("apply", *args).returncode == 0
    (shell.data / CORE / "config-mode.json").write_text("{}")
    assert shell.windlass("plan", *args).returncode == 0
    verified = shell.windlass("verify", f"--to={shell.data}")
    assert (verified.returncode, verified.stderr) == (0, ""), verified.stdout


def test_verify_agrees_with_plan_about_a_synced_file_that_is_excluded(shell: Shell) -> None:
    """Neither its content nor its absence is a difference."""
    shell.run("apply")
    (shell.data / VIEW).write_text("edited")
    (shell.data / "projects/line/project.json").unlink()
    excludes = ["--exclude=**/view.json", "--exclude=**/project.json"]
    assert shell.run("plan", *excludes).returncode == 0
    verified = shell.windlass("verify", f"--to={shell.data}", *excludes)
    assert (verified.returncode, verified.stderr) == (0, ""), verified.stdout
    assert shell.windlass("verify", f"--to={shell.data}").returncode == 2


def test_verify_agrees_with_plan_about_a_manifest_of_an_earlier_version(shell: Shell) -> None:
    """It does not record which files were there before, so neither counts one as extra."""
    shell.run("apply")
    (shell.data / "projects/line/theirs").write_text("?")
    manifest = shell.data / ".ignition-sync/manifest.json"
    body = json.loads(manifest.read_text())
    del body["adopted"]
    manifest.write_text(json.dumps(body))
    assert shell.run("plan").returncode == 0
    verified = shell.windlass("verify", f"--to={shell.data}")
    assert (verified.returncode, verified.stderr) == (0, ""), verified.stdout


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("metadata: {name: site, anotations: {a: b}}", "unknown field metadata.anotations"),
        (
            "metadata: {name: site}\napiVersion: sync.ignition.io/v1",
            "unsupported apiVersion 'sync.ignition.io/v1'; use sync.ignition.io/v1alpha1",
        ),
    ],
)
def test_a_file_with_wrong_metadata_or_version_is_refused(
    shell: Shell, head: str, words: str
) -> None:
    """The API server would refuse it, or drop what the typo meant."""
    cr = shell.directory / "cr.yaml"
    cr.write_text(f"""\
kind: IgnitionSync
{head}
spec:
  git: {{repo: "{shell.served.server.url("site")}", ref: main}}
  gateway: {{apiKeySecretRef: {{name: key}}}}
""")
    refused = shell.run("apply", f"--cr={cr}")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == f"windlass: --cr: {cr}: {words} (Usage)\n"


def test_an_empty_annotation_means_what_it_means_on_a_pod(shell: Shell) -> None:
    """Without excluded tag providers their tags are synced."""
    tags = "projects/line/tag-x/MQTT Engine/tags.json"
    commit_files(shell.repository, {f"{SERVICE}/{tags}": "{}"})
    assert f"+ {tags}" not in shell.run("plan").stdout
    assert f"+ {tags}" in shell.run("plan", "--annotation=exclude-tag-providers=").stdout
