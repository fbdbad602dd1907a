"""All interleavings of three sites, three messages and lost links (RCM R15-R18, R49; A10)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.testing.order.exploration import Broken, Exploration
from broker.testing.order.violation import Property
from broker.transport.order import VARIANTS
from tests.transport.order.mutants import (
    AnswersWithNoClock,
    DeliversBeyondReserved,
    DeliversOnArrival,
    HasNoTieBreak,
    Mutant,
    TellsReservedClock,
)

#: Messages of the sites a, b and c.
MESSAGES = ("111", "210", "021")
#: Lost links; two of them isolate a site.
LOST = ("", "ab", "ac", "bc", "ab ac", "ab bc", "ac bc")
#: Lost links in each run of the suite. The others run in the soak.
USUAL: dict[str, dict[str, tuple[str, ...]]] = {
    "logical": {
        "111": ("", "ab", "ac", "bc", "ab bc"),
        "210": ("ab", "ac bc"),
        "021": ("bc", "ab ac"),
    },
    "sequencer": {"111": ("", "ac", "bc"), "210": ("ab bc",), "021": ()},
}
#: The time of a clock answer: timeouts up to it come at any time.
SHORT = 0.1


def messages_of(counts: str) -> dict[str, int]:
    return dict(zip("abc", map(int, counts), strict=True))


def cases() -> Iterator[object]:
    for variant, usual in USUAL.items():
        for counts in MESSAGES:
            for lost in LOST:
                marks = () if lost in usual[counts] else pytest.mark.soak
                yield pytest.param(variant, counts, lost, 0.0, marks=marks)
    yield pytest.param("logical", "110", "", SHORT)
    for lost in LOST[1:]:
        yield pytest.param("logical", "110", lost, SHORT, marks=pytest.mark.soak)


@pytest.mark.parametrize(("variant", "counts", "lost", "patience"), [*cases()])
def test_no_interleaving_breaks_a_property(
    variant: str, counts: str, lost: str, patience: float
) -> None:
    exploration = Exploration(VARIANTS[variant], messages_of(counts), lost.split(), patience)
    assert exploration.explore() > 100


@pytest.mark.parametrize(
    "core",
    [
        *(AnswersWithNoClock, DeliversBeyondReserved, DeliversOnArrival, HasNoTieBreak),
        TellsReservedClock,
    ],
    ids=lambda core: core.__name__,
)
def test_a_faulty_variant_is_found_with_its_steps(core: type) -> None:
    mutant = Mutant(core, Property.GLOBAL_ORDER)
    with pytest.raises(Broken, match="release"):
        Exploration(mutant, messages_of("110"), patience=SHORT).explore()
