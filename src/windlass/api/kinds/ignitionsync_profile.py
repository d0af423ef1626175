"""Part of the IgnitionSync spec: which files go where, and how their content is changed.

Pure.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from windlass.api.schema.constraint import code_only, compile_pattern, schema_extra
from windlass.api.schema.scalars import Glob, GlobOrMapped, TreePath

MappingType = Literal["dir", "file"]
SystemNameScope = Literal["AnyDepth", "TopLevel"]

_JSON_STEPS = (
    r"""\.[^.\[\]"\x00-\x1f]+""",
    r"""\[(0|[1-9][0-9]{0,8}|-)\]""",
    r"""\["([^"\\\x00-\x1f]|\\["\\])*"\]""",
)
_JSON_PATH = f"^({'|'.join(_JSON_STEPS)})+$"

JsonPath = Annotated[str, Meta(min_length=1, max_length=256, pattern=_JSON_PATH)]
ProfileName = Annotated[
    str, Meta(min_length=1, max_length=63, pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
]
VariableName = Annotated[
    str, Meta(min_length=1, max_length=63, pattern="^[A-Za-z_][A-Za-z0-9_]{0,62}$")
]
PatchValue = Annotated[str, Meta(max_length=1024)]

_is_json_path = compile_pattern(_JSON_PATH).search
_JSON_PATHS = code_only(
    "keys must be paths of at most 256 characters, for example .a.b[0].c",
    lambda edits: all(len(path) <= 256 and _is_json_path(path) for path in edits),
)
Globs = Annotated[tuple[Glob, ...], Meta(max_length=128, extra=schema_extra(list_type="atomic"))]


class PatchSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Edits of JSON files that leave every other byte as it is."""

    file: Annotated[
        GlobOrMapped,
        Meta(
            description="Files to edit, as a pattern below the destination; omit it for the "
            "mapped file itself. May contain variables."
        ),
    ] = ""
    set: Annotated[
        dict[str, PatchValue],
        Meta(
            description="Values by path, for example .host: 10.0.0.1 or .servers[0].port: 8088; "
            "the index - appends to an array. Values may contain variables. A value that is "
            "valid JSON is used as JSON, any other as a string.",
            min_length=1,
            max_length=64,
            extra=schema_extra(_JSON_PATHS),
        ),
    ]


class ProfileMappingSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One piece of the repository, and where it lands."""

    source: Annotated[
        TreePath,
        Meta(
            description="File or directory in the repository; . is its root. May contain "
            "variables such as {{.GatewayName}}."
        ),
    ]
    destination: Annotated[
        TreePath,
        Meta(
            description="Destination, relative to the data directory of the gateway. May contain "
            "variables."
        ),
    ]
    type: Annotated[
        MappingType | None,
        Meta(description="Expected type of the source. Default: the type in the repository."),
    ] = None
    required: Annotated[
        bool,
        Meta(
            description="Whether a missing source is an error; otherwise it is skipped. A "
            "deployment mode in the source must exist in any case."
        ),
    ] = False
    template: Annotated[
        bool, Meta(description="Also replaces variables in the content of the files.")
    ] = False
    patches: Annotated[
        tuple[PatchSpec, ...],
        Meta(
            description="Edits of JSON files, applied after variables are replaced.",
            max_length=32,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()


class ProfileSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the gateways that name this profile get."""

    mappings: Annotated[
        tuple[ProfileMappingSpec, ...],
        Meta(
            description="Sources and destinations; if two mappings provide the same file, the "
            "later one wins.",
            min_length=1,
            max_length=64,
            extra=schema_extra(list_type="atomic"),
        ),
    ]
    exclude_patterns: Annotated[
        Globs,
        Meta(description="Additional paths on the gateway that are neither written nor deleted."),
    ] = ()
    vars: Annotated[
        Annotated[dict[VariableName, PatchValue], Meta(max_length=64)] | None,
        Meta(description="Variables of this profile, available in templates as {{.Vars.name}}."),
    ] = None
    sync_period: Annotated[
        Annotated[int, Meta(ge=5, le=3600)] | None,
        Meta(
            description="Interval in seconds at which the agent checks its state. Default: the "
            "annotation ignition-sync.io/sync-period of the pod."
        ),
    ] = None
    dry_run: Annotated[
        bool, Meta(description="Plans and reports a sync without writing files or scanning.")
    ] = False
    paused: Annotated[
        bool,
        Meta(
            description="Stops syncing; the gateways of this profile are "
            "left unchanged while this is true."
        ),
    ] = False


class AdditionalFileSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One more piece of the repository for gateways that use no profile."""

    source: Annotated[
        TreePath,
        Meta(description="File or directory in the repository. May contain variables."),
    ]
    dest: Annotated[
        TreePath,
        Meta(description="Destination, relative to the data directory. May contain variables."),
    ]
    type: Annotated[MappingType, Meta(description="Type of the source.")] = "file"


class NormalizeField(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One value to set in every config.json that has it."""

    json_path: Annotated[JsonPath, Meta(description="Path of the value, for example .a.b[0].c.")]
    value_template: Annotated[
        str, Meta(description="New value. May contain variables.", max_length=1024)
    ]


class Normalize(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is made to fit the gateway in every config.json."""

    system_name: Annotated[
        bool, Meta(description="Sets systemName to the name of the gateway.")
    ] = False
    system_name_scope: Annotated[
        SystemNameScope,
        Meta(description="Whether systemName is set at any depth or only at the top level."),
    ] = "AnyDepth"
    fields: Annotated[
        tuple[NormalizeField, ...],
        Meta(
            description="Additional values to set.",
            max_length=32,
            extra=schema_extra(list_type="atomic"),
        ),
    ] = ()
