"""Error for expressions that a shape does not decide."""

from __future__ import annotations


class Undecidable(Exception):
    """A shape does not decide an expression; the text is the reason for `explain`."""
