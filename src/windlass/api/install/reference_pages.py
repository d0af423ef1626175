"""Reference pages in Markdown: the meaning of every field of a kind, the purpose of every role.

Written from the same schema that the API server gets, so a page cannot describe a field that
does not exist.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.api.install import cluster_roles, crd
from windlass.api.schema.kind import Kind
from windlass.objects.names import Object

_STATUS_TEXT = "Written by windlass, and never read back as an instruction."


def kind_page(kind: Kind, sample_yaml: str) -> str:
    """The reference page of `kind`."""
    (version,) = crd.crd_manifest(kind)["spec"]["versions"]
    parts = version["schema"]["openAPIV3Schema"]["properties"]
    lines = [
        *(f"# {kind.name}", "", kind.description, "", *_facts(kind), ""),
        *("## Spec", "", *_table(parts["spec"], "spec"), "", *_rules(parts["spec"])),
        *("## Status", "", _STATUS_TEXT, "", *_table(parts["status"], "status"), ""),
        *("## Sample", "", "```yaml", sample_yaml.rstrip("\n"), "```"),
    ]
    return "\n".join(lines) + "\n"


def rbac_page(documents_by_file: dict[str, list[Object]]) -> str:
    """The reference page of all roles and admission policies."""
    lines = [
        "# Rights",
        "",
        "Each role has its own file in `deploy/rbac`; you can leave out any of them.",
        "",
        "| Object | File | Purpose | Permissions |",
        "|---|---|---|---|",
    ]
    for name, documents in documents_by_file.items():
        lines.extend(_role_row(name, document) for document in documents if "rules" in document)
    lines += ["", "Admission policies reject what roles cannot express:", ""]
    lines += ["| Object | File | Purpose | Rejection message |", "|---|---|---|---|"]
    for name, documents in documents_by_file.items():
        lines.extend(_policy_row(name, policy) for policy in documents if _is_policy(policy))
    return "\n".join(lines) + "\n"


def _role_row(name: str, role: Object) -> str:
    metadata = role["metadata"]
    rights = "<br>".join(_rule_text(rule) for rule in role["rules"])
    purpose = metadata["annotations"][cluster_roles.PURPOSE_ANNOTATION]
    return f"| {role['kind']} `{metadata['name']}` | `{name}.yaml` | {purpose} | {rights} |"


def _is_policy(document: Object) -> bool:
    return str(document["kind"]) == "ValidatingAdmissionPolicy"


def _policy_row(name: str, policy: Object) -> str:
    metadata = policy["metadata"]
    texts = "<br>".join(rule["message"] for rule in policy["spec"]["validations"])
    purpose = metadata["annotations"][cluster_roles.PURPOSE_ANNOTATION]
    return f"| {policy['kind']} `{metadata['name']}` | `{name}.yaml` | {purpose} | {texts} |"


def _rule_text(rule: Object) -> str:
    groups = ", ".join(group or "core" for group in rule["apiGroups"])
    named = f" named {', '.join(rule['resourceNames'])}" if "resourceNames" in rule else ""
    what = ", ".join(rule["resources"])
    return f"{', '.join(rule['verbs'])}: {what}{named} ({groups})".replace("*", r"\*")


def _facts(kind: Kind) -> Iterator[str]:
    shown = ", ".join(column.name for column in kind.columns if not column.wide)
    wide = ", ".join(column.name for column in kind.columns if column.wide)
    yield f"- API version: `{kind.gvk.api_version}`"
    yield f"- Scope: {'one namespace' if kind.namespaced else 'the cluster'}"
    yield f"- Names: `{kind.plural}`, `{kind.singular}`, {_code(kind.short_names)}"
    yield f"- Categories: {_code(kind.categories)}"
    yield f"- Columns: {shown}" + (f"; with `-o wide` also {wide}" if wide else "")


def _table(schema: Object, root: str) -> Iterator[str]:
    yield "| Field | Type | Default | Bounds | Meaning |"
    yield "|---|---|---|---|---|"
    for path, field, required in _fields(schema, root):
        default = "required" if required else _default(field)
        cells = (f"`{path}`", _type(field), default, _bounds(field), field.get("description", ""))
        yield "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _fields(schema: Object, path: str) -> Iterator[tuple[str, Object, bool]]:
    for name, field in schema.get("properties", {}).items():
        field_path = f"{path}.{name}"
        yield field_path, field, name in schema.get("required", ())
        if "items" in field:
            yield from _fields(field["items"], f"{field_path}[]")
        elif "additionalProperties" in field:
            yield from _fields(field["additionalProperties"], f"{field_path}.KEY")
        else:
            yield from _fields(field, field_path)


def _rules(schema: Object) -> Iterator[str]:
    texts = list(_messages(schema, "spec"))
    if texts:
        yield from ("Rules that the API server enforces:", "")
        yield from (f"- `{path}`: {message}" for path, message in texts)
        yield ""


def _messages(schema: Object, path: str) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path + rule.get("fieldPath", ""), rule["message"]
    for name, field in schema.get("properties", {}).items():
        yield from _messages(field, f"{path}.{name}")
    if "items" in schema:
        yield from _messages(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from _messages(schema["additionalProperties"], f"{path}.KEY")


def _type(field: Object) -> str:
    if "items" in field:
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map to {_type(field['additionalProperties'])}"
    if "x-kubernetes-int-or-string" in field:
        return "quantity"
    if "enum" in field:
        return " \\| ".join(f"`{value}`" for value in field["enum"])
    return str(field.get("format", field["type"]))


def _default(field: Object) -> str:
    if "default" not in field:
        return ""
    value = field["default"]
    if isinstance(value, list):
        return ", ".join(f"`{entry}`" for entry in value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _bounds(field: Object) -> str:
    if "x-kubernetes-int-or-string" in field:
        return "above 0"
    items = field.get("items", {})
    texts = (
        _range(field, "minItems", "maxItems", "entries"),
        _range(field, "minProperties", "maxProperties", "entries"),
        _range(field, "minimum", "maximum", ""),
        _range(field, "minLength", "maxLength", "characters"),
        _range(items, "minLength", "maxLength", "characters each"),
        f"`{field['pattern']}`" if "pattern" in field else "",
        f"each `{items['pattern']}`" if "pattern" in items else "",
    )
    return ", ".join(text.replace("|", "\\|") for text in texts if text)


def _range(field: Object, least: str, most: str, unit: str) -> str:
    if most not in field:
        return ""
    return f"{field.get(least, 0)} to {field[most]} {unit}".rstrip()


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("\n", " ")
