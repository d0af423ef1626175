"""Ways in which a git server can misbehave, chosen by tests and demos.

One fault is active at a time: for one service or all, for a number of requests or until
it is cleared. A control file, where one is given, is read on every request, so a fault
can be switched on beside a running server; an absent or empty file means none.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path

MODES = (
    "refuse-auth",
    "error",
    "hang",
    "slow",
    "cut",
    "reject",
    "protected",
    "redirect",
    "endless",
)
SERVICES = ("", "upload-pack", "receive-pack")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; `text`, `branch` and `location` belong to reject, protected and redirect.

    cut: the pack is accepted, then the connection ends without an answer.
    """

    mode: str
    service: str = ""
    times: int | None = None
    text: str = "the push is not wanted"
    branch: str = ""
    location: str = ""
    advertisement: bool = True
    """Whether the first request of an exchange (the list of refs) is affected too."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"{self.mode!r} is no fault; use one of {', '.join(MODES)}")
        if self.service not in SERVICES:
            raise ValueError(f"{self.service!r} is no service; use upload-pack or receive-pack")


class Faults:
    """The active fault; may be set from any thread."""

    def __init__(self, control_file: Path | None = None) -> None:
        self._active: Fault | None = None
        self._control_file = control_file
        self._lock = threading.Lock()

    def set(self, fault: Fault) -> None:
        with self._lock:
            self._active = fault

    def clear(self) -> None:
        with self._lock:
            self._active = None

    def take(self, service: str, *, advertisement: bool) -> Fault | None:
        """The fault this request meets; counts down a fault that ends by itself."""
        from_file = self._from_file()
        with self._lock:
            fault = from_file or self._active
            if fault is None or (fault.service and fault.service != service):
                return None
            if advertisement and not fault.advertisement:
                return None
            if from_file is None and fault.times is not None:
                left = fault.times - 1
                self._active = replace(fault, times=left) if left > 0 else None
            return fault

    def _from_file(self) -> Fault | None:
        """The fault the control file asks for: `{"mode": "hang", "service": "receive-pack"}`."""
        if self._control_file is None:
            return None
        try:
            text = self._control_file.read_text()
        except FileNotFoundError:
            return None
        if not text.strip():
            return None
        try:
            return Fault(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self._control_file}: {error}") from error
