"""Options that several typer commands share, handed to each of them as one value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

R = TypeVar("R")


def option(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """One option of a group; `annotation` is what typer reads. Without a default it is required."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def accepts_options(
    argument: str, group: Sequence[inspect.Parameter], build: Callable[..., Any]
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """A decorator that replaces `argument` of a command by the options of `group`.

    The command gets what `build` makes of them.
    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        def run(**options: Any) -> R:
            value = build(**{each.name: options.pop(each.name) for each in group})
            return command(**{argument: value}, **options)

        parameters: list[inspect.Parameter] = []
        for own in inspect.signature(command, eval_str=True).parameters.values():
            keyword = own.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            parameters += group if own.name == argument else [keyword]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return decorate
