"""Match one document of a known shape: the way of an event that comes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from broker.errors import BadEnvelope
from broker.matching.contract import Verdict
from broker.matching.figures import Figures
from broker.matching.shape.cache import LENGTHS, ShapeCache
from broker.matching.switching.batch import Batch
from broker.matching.switching.bound import Matching, Undecided
from broker.matching.switching.plans import Plans
from broker.matching.switching.streams import Streams


class LoneDocument:
    """Decides a document by the shape that its length suggests and the plan of that shape.

    It takes the steps of a batch without the groups and columns that only several documents need.
    """

    def __init__(
        self,
        shapes: ShapeCache,
        plans: Plans,
        streams: Streams,
        figures: Figures,
        counts: Counter[str],
        clock: Callable[[], float],
    ) -> None:
        self._shapes = shapes
        self._plans = plans
        self._streams = streams
        self._figures = figures
        self._counts = counts
        self._clock = clock

    def match(self, document: bytes) -> Verdict | None:
        """Return the verdict; None for a document that needs the steps of a batch."""
        shape = self._shapes.likely[len(document) % LENGTHS]
        if shape is None:
            return None
        began = self._clock()
        values = shape.values(document)
        if values is None:
            return None
        recognised = self._clock()
        plan = self._plans.get(shape)
        if plan is None or plan.pending:
            return None
        try:
            header = shape.header(values)
        except BadEnvelope:
            return None
        found: Matching = [None]
        undecided: Undecided = {}
        plan.bound.find(Batch((values,)), found, undecided)
        if undecided:
            return None
        view, members = self._streams.view(header.stream), found[0]
        wanted = view.everything if members is None else view.wanted(members)
        self._shapes.use(shape, 1)
        self._counts["recognised"] += 1
        self._figures.recognition_seconds += recognised - began
        self._figures.recognised(shape.reference, 1, self._clock() - recognised)
        return shape.verdict(header, wanted)
