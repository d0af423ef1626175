"""The address of a Git repository as a field, and the constraints on it.

Every constraint stands on the object that holds the address and names the field, never on the
field itself, because the API server repeats the value of a rejected field in its answer, token
included. For the same reason no message holds the value.

Pure.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.api.schema.constraint import (
    INVISIBLE_CHARACTERS,
    Constraint,
    must_match,
    must_not_match,
)

_HOST = r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?|\[[0-9A-Fa-f:.]+\])"
_PORT = "(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
_USER = "[A-Za-z0-9_][A-Za-z0-9._+~=-]*"
_PATH = "/.*[^/].*"
_FORMS = (
    rf"(https?|git)://([^/]*@)?{_HOST}{_PORT}{_PATH}",
    rf"ssh://([^/]*@)?{_HOST}{_PORT}{_PATH}",
    f"file://{_PATH}",
    rf"{_USER}@{_HOST}:[^:\\]*[^/:\\][^\\]*",
)

RemoteUrl = Annotated[str, Meta(min_length=1, max_length=2048)]
"""The address of a remote; an error about length does not quote the value."""


def url_constraints(field: str, secret: str) -> tuple[Constraint, ...]:
    """The rules for the address in `field`; `secret` is the field with its credentials."""
    return (
        must_match(
            f"^({'|'.join(_FORMS)})$",
            "must be https://host/path, ssh://user@host/path or user@host:path; http:// and git:// "
            "are allowed for hosts in --git-insecure-hosts, file:/// with --git-allow-file",
            field=field,
        ),
        *_shape_constraints(field),
        *_credential_constraints(field, secret),
    )


def _shape_constraints(field: str) -> tuple[Constraint, ...]:
    return (
        must_not_match(
            f"[{INVISIBLE_CHARACTERS}]",
            "must not contain spaces, line breaks or control characters",
            field=field,
        ),
        must_not_match("::", 'must not contain "::"; remote helpers are not run', field=field),
        must_not_match(
            "^([a-z]+://)?([^/@]*@)?-|^[a-z]+://[^/]*/+-|^[^/:]*:/*-",
            'must not begin with "-", nor may its user, host or path',
            field=field,
        ),
        must_not_match(
            r"[/:](\.|%2[eE]){1,2}(/|$)|%[01][0-9A-Fa-f]|%7[fF]",
            'must not contain "." or ".." segments or encoded control characters',
            field=field,
        ),
    )


def _credential_constraints(field: str, secret: str) -> tuple[Constraint, ...]:
    return (
        must_not_match(
            "^(https?|git|file)://[^/]*@",
            f"must not contain credentials; put them into the Secret named by {secret}",
            field=field,
        ),
        must_not_match(
            "^ssh://[^/]*:[^/]*@|^ssh://[^/@]*[^A-Za-z0-9._+~=/@-][^/@]*@|^ssh://([^/]*@[^/]*)?@",
            "must not contain a password, and its user name must be plain; "
            f"put the key into the Secret named by {secret}",
            field=field,
        ),
        must_not_match(
            "[?#]",
            "must not contain a query or a fragment; "
            f"put credentials into the Secret named by {secret}",
            field=field,
        ),
    )
