"""The simulation in `CONTRIBUTING.md` runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"


def test_the_documented_simulation_passes() -> None:
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found[1], str(DOCUMENT), "exec"), names)
    names["test_a_killed_node_loses_nothing"]()
