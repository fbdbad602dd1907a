"""What a shape can not decide."""

from __future__ import annotations


class Undecidable(Exception):
    """Why a shape does not decide a part of a query; the text is for `explain`."""
