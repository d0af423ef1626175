"""Makes the content of one file: copy, template, patches, fields, systemName, signature.

That order is fixed (NRM-6). The result depends on the content and the recipe alone, so a
file whose blob and recipe digest are those of the last sync need not be made again. A step
that leaves every byte as it was is not named among the transforms, and there are none where
the result equals the source: `transforms` tells whether a payload was altered.

The signature in a `resource.json` covers its sibling payloads. Once one of them was altered
it lies, and nobody outside the gateway can compute a new one; a recipe with the policy
`drop` takes it out, and the gateway puts its own back (NRM-7). Which files that concerns is
for the layout to say.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, TypeAlias

from windlass.gateways.decide import json_edits, json_spans, normalise, patching, template
from windlass.gateways.decide.json_edits import Remove
from windlass.gateways.decide.json_tokens import JsonRefused
from windlass.gateways.decide.normalise import FieldValue, Normalised, Scope
from windlass.gateways.decide.patching import Patch
from windlass.gateways.decide.refusal import Refused
from windlass.gateways.decide.template import TemplateError
from windlass.gateways.decide.variables import MAPS, NAMES, Variables

RESOURCE_FILE = "resource.json"
EDITION = 1
"""Counts up when equal inputs may give other bytes than before, so that files are made anew."""

SignaturePolicy: TypeAlias = Literal["keep", "drop"]

_SIGNATURE = "lastModificationSignature"
_SIGNATURE_PATH = ("attributes", _SIGNATURE)
_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the content of a file is made; without arguments it is copied.

    `variables` are for the template alone: the values of fields and the system name are
    already rendered.
    """

    template: bool = False
    patches: tuple[Patch, ...] = ()
    fields: tuple[FieldValue, ...] = ()
    system_name: str | None = None
    system_name_scope: Scope = "AnyDepth"
    variables: Variables = Variables()  # noqa: RUF009 - frozen
    signature_policy: SignaturePolicy = "keep"

    @property
    def copies(self) -> bool:
        """Whether nothing can change."""
        normalises = self.fields or self.system_name is not None
        return not (self.template or self.patches or normalises or self.signature_policy == "drop")

    def for_path(self, path: str) -> Recipe:
        """The same for `path`, without what cannot concern a file of that name."""
        config = normalise.is_config(path)
        return Recipe(
            template=self.template,
            patches=self.patches,
            fields=self.fields if config else (),
            system_name=self.system_name if config else None,
            system_name_scope=self.system_name_scope,
            variables=self.variables,
            signature_policy=self.signature_policy if is_resource(path) else "keep",
        )


@dataclass(frozen=True, slots=True)
class Rendered:
    """A content, the steps that altered it, and how many systemName members it has."""

    content: bytes
    transforms: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    system_names: int = 0


def is_resource(path: str) -> bool:
    """Whether the file at `path` describes the payloads beside it."""
    return posixpath.basename(path) == RESOURCE_FILE


def render(content: bytes, path: str, recipe: Recipe) -> Rendered:
    """`content` made into what `path` should hold; Refused with file and line where it cannot."""
    making = _Making(content, path, recipe.for_path(path))
    try:
        for name, step in making.steps():
            making.take(name, step())
    except TemplateError as cause:
        message = f"{path}:{cause.line}: {cause.message}"
        raise Refused("TemplateError", path, message) from cause
    except JsonRefused as cause:
        message = f"{path}:{cause.line}:{cause.column}: {cause.message}"
        raise Refused("ConfigSyntaxError", path, message) from cause
    altered = making.content != content
    transforms = tuple(making.transforms) if altered else ()
    return Rendered(making.content, transforms, making.warnings, making.found)


def recipe_digest(recipe: Recipe) -> str:
    """What a recipe is remembered by; empty for a plain copy."""
    if recipe.copies:
        return ""
    parts = [
        EDITION,
        _variables(recipe.variables) if recipe.template else None,
        [[patch.file, sorted(patch.set.items())] for patch in recipe.patches],
        [[field.path, field.text] for field in recipe.fields],
        [recipe.system_name, recipe.system_name_scope] if recipe.system_name is not None else None,
        recipe.signature_policy,
    ]
    text = json.dumps(parts, separators=(",", ":"))
    return sha256(text.encode("ascii")).hexdigest()[:_DIGITS]


def without_signature(resource_json: bytes) -> bytes:
    """`resource_json` without the member attributes.lastModificationSignature."""
    if not json_spans.member_spans(resource_json, _SIGNATURE):
        return resource_json
    return json_edits.edited(resource_json, [Remove(_SIGNATURE_PATH)])


def _variables(variables: Variables) -> list[object]:
    values: list[object] = [getattr(variables, attribute) for attribute in NAMES.values()]
    return values + [sorted(getattr(variables, attribute).items()) for attribute in MAPS.values()]


class _Making:
    """One file in the making."""

    def __init__(self, content: bytes, path: str, recipe: Recipe) -> None:
        self.content = content
        self.transforms: list[str] = []
        self.warnings: tuple[str, ...] = ()
        self.found = 0
        self._path = path
        self._recipe = recipe

    def steps(self) -> Iterator[tuple[str, Callable[[], bytes]]]:
        """The steps of the recipe in their order."""
        recipe = self._recipe
        if recipe.template:
            yield "template", lambda: template.render_bytes(self.content, recipe.variables)
        if recipe.patches:
            yield "patches", lambda: patching.patched(self.content, recipe.patches)
        if recipe.fields:
            yield "fields", self._fields
        if recipe.system_name is not None:
            yield "systemName", self._system_name
        if recipe.signature_policy == "drop":
            yield "signature", lambda: without_signature(self.content)

    def take(self, name: str, content: bytes) -> None:
        if content != self.content:
            self.transforms.append(name)
            self.content = content

    def _fields(self) -> bytes:
        result = normalise.with_fields(self.content, self._recipe.fields)
        self.warnings = tuple(f"{self._path}: {warning}" for warning in result.warnings)
        return result.content

    def _system_name(self) -> bytes:
        name, scope = self._recipe.system_name or "", self._recipe.system_name_scope
        result: Normalised = normalise.with_system_name(self.content, name, scope)
        self.found = result.found
        return result.content
