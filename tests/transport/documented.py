from __future__ import annotations

import re
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "transport.md"


def documented(language: str) -> list[str]:
    """Return all code blocks of `docs/transport.md` in that language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
