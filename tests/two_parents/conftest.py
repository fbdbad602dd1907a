"""Makes the package of `examples/two_parents` importable, as if it were installed."""

from __future__ import annotations

import sys
from pathlib import Path

# Its path, fixed now, must not have the drop-in of the example in other tests.
import twisted.plugins  # noqa: F401

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples" / "two_parents"))
