"""Asks the API server whether an object is really gone.

Nothing else counts as proof than its word that an object of that name does not exist: a
type that is not served answers 404 too, but names no object, and every other answer says
nothing at all (SNP-4).
"""

from __future__ import annotations

from windlass.kube.api import Api
from windlass.kube.errors import ApiError, NotFound
from windlass.objects.names import Identity

QUESTION_SECONDS = 1 / 50
"""The least time between two questions of one asker."""


async def proven(api: Api, identity: Identity) -> bool:
    """Whether the API server says in so many words that the object does not exist."""
    try:
        await api.get(identity.gvr, identity.name, identity.namespace)
    except ApiError as error:
        return says_gone(error, identity)
    return False


def says_gone(error: ApiError, identity: Identity) -> bool:
    """Whether an answer is that proof."""
    return isinstance(error, NotFound) and f'"{identity.name}" not found' in error.message
