"""Makes the package of `examples/two_parents` importable, as if it were installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "two_parents"))
