"""Options of `windlass gateway plan|diff|apply` that describe one gateway.

`@accepts_gateway_options` replaces the argument `inputs` of a command by all of them; the command
gets one `GatewayOptions`. Together with a commit and a directory they hold everything that an agent
knows.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from windlass.app.option_group import accepts_options, option

_PANEL = "The gateway"


def _option(help: str, *names: str, **more: Any) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=_PANEL, **more)


Texts = list[str] | None


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """Options that describe one gateway; the help text of each field explains it."""

    to: Annotated[Path, _option("Data directory of the gateway.", metavar="DIR")]
    repo: Annotated[str, _option("Repository: a URL or a local directory.")] = ""
    ref: Annotated[str, _option("Branch, tag, full ref name or full SHA.")] = ""
    cr: Annotated[Path | None, _option("File with an IgnitionSync as YAML.", metavar="FILE")] = None
    service_path: Annotated[str, _option("Directory of the gateway in the repository.")] = ""
    profile: Annotated[str, _option("Profile of the IgnitionSync.")] = ""
    gateway_name: Annotated[str, _option("Name of the gateway.")] = ""
    deployment_mode: Annotated[str, _option("Deployment mode of the gateway.")] = ""
    tag_provider: Annotated[str, _option("Tag provider, for templates.")] = ""
    exclude: Annotated[Texts, _option("Exclude pattern; repeatable.")] = None
    site_number: Annotated[str, _option("Site number, for templates.")] = ""
    cluster_name: Annotated[str, _option("Cluster name, for templates.")] = ""
    label: Annotated[Texts, _option("Label of the pod; repeatable.", metavar="KEY=VALUE")] = None
    annotation: Annotated[
        Texts,
        _option(
            "Annotation of the pod, without ignition-sync.io/; repeatable.", metavar="KEY=VALUE"
        ),
    ] = None
    pod_name: Annotated[str, _option("Name of the pod, for templates.")] = ""
    git_auth: Annotated[
        Path | None, _option("Directory with the keys of the Git Secret as files.", metavar="DIR")
    ] = None
    insecure_host: Annotated[
        Texts, _option("Host that may be reached over http or on a local address; repeatable.")
    ] = None
    token_file: Annotated[
        Path | None,
        _option(
            "File with the API token of the gateway, name:secret; its resource is never deleted.",
            metavar="FILE",
        ),
    ] = None


def _group() -> list[inspect.Parameter]:
    # Once for all commands: evaluating the annotations takes a millisecond.
    hints = get_type_hints(GatewayOptions, include_extras=True)
    signature = inspect.signature(GatewayOptions)
    return [option(name, hints[name], each.default) for name, each in signature.parameters.items()]


accepts_gateway_options = accepts_options("inputs", _group(), GatewayOptions)
"""The decorator for commands that work on one gateway; their argument is `inputs`."""
