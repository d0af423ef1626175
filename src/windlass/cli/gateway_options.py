"""Options of `windlass gateway plan|diff|apply` that describe one gateway.

`@accepts_gateway_options` adds all of them to a command and passes the command one
`GatewayOptions`. Together with a commit and a directory they hold everything that an agent knows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

R = TypeVar("R")

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


def accepts_gateway_options(command: Callable[..., R]) -> Callable[..., R]:
    """The command with everything in `GatewayOptions` as an option; its own options stay."""

    def run(**options: Any) -> R:
        inputs = GatewayOptions(
            **{parameter.name: options.pop(parameter.name) for parameter in _GATEWAY_PARAMETERS}
        )
        return command(inputs=inputs, **options)

    parameters = [*_GATEWAY_PARAMETERS, *_own_parameters(command)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _own_parameters(command: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    own = [parameter for parameter in parameters if parameter.name != "inputs"]
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]


def _parameters() -> list[inspect.Parameter]:
    # Once for all commands: evaluating the annotations takes a millisecond.
    hints = get_type_hints(GatewayOptions, include_extras=True)
    return [_parameter(field, hints[field.name]) for field in fields(GatewayOptions)]


def _parameter(field: Field[Any], annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.name == "to" else field.default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, kind, annotation=annotation, default=default)


_GATEWAY_PARAMETERS = _parameters()
