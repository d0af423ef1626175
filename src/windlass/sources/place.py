"""Where things of one repository are kept: apart for every credential.

What one credential may read another may not, so nothing fetched with one is ever found by
an asker with the other.
"""

from __future__ import annotations

import hashlib

from windlass.git.credentials import Credentials
from windlass.git.format.remote import Remote


def name(remote: Remote, credentials: Credentials) -> str:
    """A directory name for a repository as seen with some credentials."""
    text = f"{remote.fetch_key}\0{remote.user}\0{credentials.fingerprint}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]
