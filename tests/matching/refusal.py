"""The check of a refused event."""

from __future__ import annotations

from typing import Any

from broker.errors import PeerError
from broker.matching.contract import Refused


def assert_refused(engine: Any, document: bytes) -> PeerError:
    """Match the document, check that it is refused with a short message, and return the error."""
    (verdict,) = engine.match([document])
    assert isinstance(verdict, Refused), verdict
    error = verdict.error
    assert "\n" not in error.text
    assert len(error.text) < 600
    assert ".xml" not in error.text
    return error
