"""A commit window that stays open until it ends by itself.

The review of a folder that follows about two seconds after its scopes were listed takes along
the events that wait. It removes a file of another API version only when it is the last one, so
the end of that file is the sign that no further review comes.
"""

from __future__ import annotations

from tests.support.processes.operator import eventually
from tests.support.reverser.leftover_folder import write_leftover_folder
from tests.support.reverser.mirrored_namespace import MirroredNamespace

NO_GRACE = "--removal-grace=1s"
"""The flag without which the last review waits for minutes."""
USUAL_PUSH_TIMEOUT = "--git-push-timeout=60s"
"""The default: the window is pushed at the end once, and not again if that takes two seconds."""
WAITING_FILES = "gitopsreverser_repo_branch_queue_depth"


def configure_window(mirrored: MirroredNamespace, window: str) -> None:
    """Mirror ConfigMaps with this commit window; the last review of the folder is over then."""
    old = {**mirrored.config_map("old", a="1"), "apiVersion": "v2"}
    write_leftover_folder(mirrored, old, plurals={"ConfigMap": "configmaps"})
    mirrored.configured({"resources": ["configmaps"]}, destination={"commitWindow": window})
    eventually(lambda: not mirrored.files(), "the last review of the folder")
