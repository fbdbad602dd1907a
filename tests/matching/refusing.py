"""How the tests look at a refusal."""

from __future__ import annotations

from typing import Any

from broker.errors import InvalidEvent
from broker.matching.contract import Refused


def refusal(engine: Any, document: bytes) -> InvalidEvent:
    """The error; the engine goes on to serve an ordinary event after it."""
    (verdict,) = engine.match([document])
    assert isinstance(verdict, Refused), verdict
    error = verdict.error
    assert "\n" not in error.text
    assert len(error.text) < 600
    assert ".xml" not in error.text
    return error
