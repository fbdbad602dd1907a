"""What `explain` says, as plain content: `attrs.asdict` gives what JSON and msgpack carry.

Every list and text is bounded where it is made; what was left out is counted in a `more` beside it.
"""

from __future__ import annotations

import enum
from typing import Any

import attrs

from broker.errors import WireError


class AnswerMethod(enum.StrEnum):
    """How a query is answered for documents of a shape."""

    INDEX = "index"
    """The index decides it from the values of slots."""
    EVALUATION = "evaluation"
    """The shape does not decide it: lxml evaluates it where a necessary condition holds (F6)."""
    NEVER = "never"
    """No document of the shape matches, whatever its values."""
    ALWAYS = "always"
    """Every document of the shape matches."""


@attrs.frozen
class Comparison:
    """One comparison of a query with a literal, on the documents of some shapes."""

    operator: str
    literal: str
    paths: tuple[str, ...]
    """Where the compared values lie, over all these shapes; constants in the first of them."""
    more_paths: int
    constant: bool
    """It holds in every document of the shapes: the values there are constants."""


@attrs.frozen
class Alternative:
    """One of the alternatives that an outermost `or` gives; the whole query without one."""

    text: str
    literals: tuple[tuple[str, str], ...]
    """(operator, literal) of each comparison with a literal: what queries of a template vary in."""
    access: str
    """How the index finds queries of this template: see `access.py`."""
    sharing: int
    """Distinct queries that share the template now, this one included if it is subscribed."""


@attrs.frozen
class AlternativeAnswer:
    """What becomes of an alternative on some shapes."""

    how: AnswerMethod
    access: str
    """As in `Alternative`, for what the shape leaves of it; empty for `NEVER` and `ALWAYS`."""
    reasons: tuple[str, ...]
    """Why it is not decided, or never matches."""
    comparisons: tuple[Comparison, ...]
    more_comparisons: int


@attrs.frozen
class ShapesExplanation:
    """How the query is answered for some shapes of a type that answer it alike."""

    type: str
    version: str
    shapes: int
    how: AnswerMethod
    alternatives: tuple[AlternativeAnswer, ...]
    """In the order of `Explanation.alternatives`."""


@attrs.frozen
class Measured:
    """Seconds, each the median of several measurements; None where there was none.

    `evaluation` is lxml's for the query on the event, or ours where lxml might take too long,
    `lookup` that of the index for all queries that share its templates, `parsing` that of reading
    and validating the event, which is saved where a shape recognises it. `note` says why something
    was not measured.
    """

    evaluation: float | None = None
    lookup: float | None = None
    parsing: float | None = None
    note: str = ""


@attrs.frozen
class FoundValue:
    """A value in the event. `path` is empty for one that is computed."""

    path: str
    value: str
    holds: bool | None = None
    """Whether the comparison holds for it; None where it is compared with no literal."""


@attrs.frozen
class Finding:
    """What a part of the query comes to on the event."""

    part: str
    """The part as XPath."""
    holds: bool | None
    """Its boolean value; None where it was not looked at."""
    at: str = ""
    """The path of the node that it was asked of; empty at the outermost level."""
    operator: str = ""
    literal: str = ""
    values: tuple[FoundValue, ...] = ()
    more: int = 0
    """Values left out."""
    note: str = ""
    """What a person should know first: which condition failed, what the event has not."""
    parts: tuple[Finding, ...] = ()


@attrs.frozen
class EventExplanation:
    """Whether an event matches, and why."""

    refused: WireError | None = None
    """Why the event is no valid one; then nothing else is told."""
    type: str = ""
    version: str = ""
    stream: str = ""
    security_level: str = ""
    client_id: str = ""
    timestamp: int = 0
    incarnation: int = 0
    sequence_number: int = 0
    recognised: bool | None = None
    """Whether a known shape has it, so that it would not be parsed; None where shapes are not
    shown."""
    matches: bool | None = None
    """None where the query is not evaluated on such an event; `note` says why."""
    note: str = ""
    finding: Finding | None = None


@attrs.frozen
class Explanation:
    """How an engine answers a query; with an event also whether and why that matches (N7)."""

    engine: str
    query: str
    estimated_cost: int
    """In nodes visited by lxml on a document of a thousand (F13)."""
    everything: bool
    """The query is `true()`: it is not matched at all."""
    alternatives: tuple[Alternative, ...] = ()
    types: tuple[ShapesExplanation, ...] = ()
    more_shapes: int = 0
    """Shapes that were not looked at, because it would have taken too long."""
    withheld: bool = False
    """Shapes are not shown: they tell of events that the asking client may not read."""
    measured: Measured = Measured()
    event: EventExplanation | None = None

    def as_dict(self) -> dict[str, Any]:
        """The explanation in dicts, tuples, texts and numbers."""
        content: dict[str, Any] = attrs.asdict(self, value_serializer=_plain)
        return content


def _plain(_: object, __: object, value: Any) -> Any:
    return str(value) if isinstance(value, AnswerMethod) else value
