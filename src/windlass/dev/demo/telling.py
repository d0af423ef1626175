"""How the demo's output looks."""

from __future__ import annotations


def indented(text: str) -> str:
    """Something that was observed, set off from what is told."""
    return "\n".join(f"    {line}" for line in text.strip().splitlines())


def heading(number: int, title: str) -> str:
    """The beginning of a story."""
    line = f"{number}  {title}"
    return f"\n{line}\n{'─' * len(line)}"
