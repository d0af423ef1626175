"""Arguments for helm, and the part of its output that is reported."""

from __future__ import annotations

from windlass.environments.render import helm_command
from windlass.environments.render.helm_command import Release

_DIRECTORY = "/work/renders/x1"


def test_arguments_name_the_namespace_and_every_file() -> None:
    """Later values come later, names follow the mark that ends the options."""
    release = Release("a1", "ns", "v1.35.4", ("v1", "apps/v1/Deployment"))
    assert helm_command.template_arguments(release, chart="chart", values=["0.yaml", "1.yaml"]) == [
        "template",
        "--namespace=ns",
        "--kube-version=v1.35.4",
        "--api-versions=v1",
        "--api-versions=apps/v1/Deployment",
        "--values=0.yaml",
        "--values=1.yaml",
        "--",
        "a1",
        "chart",
    ]


def test_an_unknown_version_is_not_passed() -> None:
    """Helm then uses its own."""
    assert helm_command.template_arguments(
        Release("a1", "ns", "", ()), chart="chart", values=[]
    ) == [
        "template",
        "--namespace=ns",
        "--",
        "a1",
        "chart",
    ]


def test_an_error_message_has_no_paths_of_ours_and_no_warnings() -> None:
    """The rest is about the chart."""
    output = (
        "WARNING: Kubernetes configuration file is group-readable\n"
        f"Error: cannot load values.yaml: {_DIRECTORY}/chart/values.yaml: line 3\n\n"
        "Use --debug flag to render out invalid YAML\n"
    )
    shown = helm_command.error_message(output, directory=_DIRECTORY)
    assert shown == "cannot load values.yaml: chart/values.yaml: line 3"


def test_a_missing_dependency_comes_with_a_way_out() -> None:
    """Helm's own advice would not help: nothing is downloaded here."""
    output = "Error: found in Chart.yaml, but missing in charts/ directory: redis\n"
    assert "redis; commit the dependencies" in helm_command.error_message(
        output, directory=_DIRECTORY
    )


def test_long_error_messages_are_cut_to_their_end() -> None:
    """The last lines name the fault."""
    many = "".join(f"line {number}\n" for number in range(100))
    assert helm_command.error_message(many, directory=_DIRECTORY).splitlines()[0] == "line 92"
    shown = helm_command.error_message("x" * 5000 + "end", directory=_DIRECTORY)
    assert len(shown) == 1500
    assert shown.startswith("…")
    assert shown.endswith("end")


def test_texts_of_a_chart_are_no_warnings_and_no_terminal_commands() -> None:
    """Noise is recognized by the start of a line; unprintable characters are removed."""
    output = "coalesce.go:298: warning: x\nError: (a.yaml:1:3): WARNING: set \x1b[2J\u202e it\n"
    assert (
        helm_command.error_message(output, directory=_DIRECTORY)
        == "(a.yaml:1:3): WARNING: set ?[2J? it"
    )


def test_only_the_end_of_a_long_output_is_kept() -> None:
    """It is far more than the part that is shown."""
    captured = helm_command.stderr_tail(b"x" * 100_000 + b"end\xff")
    assert captured.endswith("end\ufffd")
    assert 10 * 1500 < len(captured) < 20_000
