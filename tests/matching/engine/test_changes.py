"""Changing subscriptions between recurring documents (A18, F13)."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker.event.envelope import Liveness
from broker.matching.contract import Accepted
from broker.matching.query.limits import QueryLimits
from tests.matching.conftest import FLIGHT_DTD, event, load_dtd
from tests.matching.engine.engine_pair import EnginePair

#: Templates with their literals. The last of a line is equivalent to the first.
TEMPLATES = (
    ("/flight/id = '{}'", "'{}' = /flight/id", "/child::flight/child::id='{}'"),
    ("//altitude > {}", "{} < //altitude", " //altitude>{} "),
    ("//leg[@status = '{}' and altitude < {}]", "//leg[ '{}'=@status and {} > altitude ]"),
    ("starts-with(/flight/id, '{}')", 'starts-with( /flight/id,"{}")'),
    ("contains(//remark, '{}') or //speed = {}", "contains(//remark,'{}')or {}=//speed"),
    ("not(//leg[altitude = {}])", "not(//leg[{}=altitude])"),
    ("count(//leg) > {}", "{} < count(//leg)"),
    ("string(//remark/@text) = '{}'", "'{}' = string(//remark/@text)"),
    ("//leg[altitude > {}][2]/speed", "//leg[ {} < altitude ][2]/speed"),
    ("sum(//leg[speed > {}]/altitude) > 5", "sum( //leg[speed>{}]/altitude )>5"),
    ("/flight/@kind = '{}'", "'{}'=/flight/@kind"),
    ("/Mspaces:Event/Mspaces:Summary = '{}'", "'{}'=/Mspaces:Event/Mspaces:Summary"),
    ("$StreamId = '{}' and //altitude != {}", "'{}' = $StreamId and {} != //altitude"),
    ("$Liveness = '{}'", "'{}' = $Liveness"),
    ("id != '' or leg/@status = '{}'", "''!=id or '{}'=leg/@status"),
    (
        "//leg[count(following::leg[altitude > {}]) > 1]",
        "//leg[ count(following::leg[{} < altitude])>1 ]",
    ),
    ("true()", "true( )"),
    ("/", "(/)"),
)
#: The index of a template that is too expensive for a large document.
EXPENSIVE = 15
LITERALS = st.sampled_from(
    [
        "1",
        "2",
        "290",
        "300",
        "-1",
        "0",
        "UAL1",
        "UAL",
        "active",
        "live",
        "recovery",
        "a.b",
        "charter",
    ]
    + ["", "x y"]
)
PATTERNS = st.sampled_from([">", "a.>", "a.b", "c", "a.*"])
STREAMS = ("a.b", "c", "a.d.e")
STRUCTURES = (
    "<flight><id>{}</id><leg status={q}><altitude>{}</altitude><speed>{}</speed></leg></flight>",
    "<flight kind='charter'><id>{}</id><remark text={q}>{}</remark></flight>",
    "<flight><id>{}</id><leg><altitude>{}</altitude></leg>"
    + "<leg status={q}><altitude>{}</altitude><speed>{}</speed></leg>" * 2
    + "</flight>",
    "<flight kind={k}><id>{}</id><leg status={q}/></flight>",
)
VALUES = ("UAL1", "UAL22", "290", "300", "1", " 2 ", "x y", "nan", "active", "")


class ChangingSubscriptions(RuleBasedStateMachine):
    """Compares the engine with the reference through changes of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []
        self.chance = random.Random(0)

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.chance.seed(seed)
        self.dtds_by_kind = {
            ("1.0", kind): load_dtd("flight", "1.0", FLIGHT_DTD.replace(b'scheduled"', kind))
            for kind in (b'scheduled"', b'charter"')
        }
        dtds = (self.dtds_by_kind["1.0", b'scheduled"'], load_dtd("flight", "2.0", FLIGHT_DTD))
        self.engines = EnginePair(*dtds, query_limits=QueryLimits())

    def documents(self, count: int) -> list[bytes]:
        found = []
        for _ in range(count):
            pattern = self.chance.choice(STRUCTURES)
            if self.chance.random() < 0.05:
                pattern = pattern.replace("<id>", "<id><!-- so -->")
            for sign in ("{q}", "{k}"):
                while sign in pattern:
                    value = self.chance.choice(VALUES if sign == "{q}" else ("charter", "none"))
                    pattern = pattern.replace(sign, f'"{value}"', 1)
            payload = pattern.format(*self.chance.choices(VALUES, k=8))
            summary = self.chance.choice([None, None, "1", "x y"])
            stream, version = self.chance.choice(STREAMS), self.chance.choice(["1.0", "1.0", "2.0"])
            found.append(event(payload.encode(), stream=stream, version=version, summary=summary))
        return found

    # ---------------------------------------------------------------- what may happen

    @rule(data=st.data(), template=st.sampled_from(TEMPLATES), pattern=PATTERNS)
    def subscribe(self, data: Any, template: tuple[str, ...], pattern: str) -> None:
        """Subscribe to an equal query, an equivalent one, or one with other literals."""
        text = data.draw(st.sampled_from(template))
        literals = [data.draw(LITERALS) for _ in range(text.count("{}"))]
        bare = text.replace("'{}'", "").replace('"{}"', "")
        if "{}" in bare:
            literals = [each if each.lstrip("-").isdigit() else "290" for each in literals]
        self.numbers.append(self.engines.subscribe(text.format(*literals), pattern))

    @rule(count=st.integers(34, 40), template=st.sampled_from(TEMPLATES[:2]))
    def subscribe_many(self, count: int, template: tuple[str, ...]) -> None:
        """Subscribe to enough queries for the index to match parsed documents too."""
        for number in range(count):
            self.numbers.append(self.engines.subscribe(template[0].format(280 + number)))

    @precondition(lambda self: self.numbers)
    @rule(data=st.data(), count=st.integers(1, 50))
    def unsubscribe(self, data: Any, count: int) -> None:
        start = data.draw(st.integers(0, len(self.numbers) - 1))
        for number in self.numbers[start : start + count]:
            self.engines.unsubscribe(number)
        del self.numbers[start : start + count]

    @rule(count=st.integers(1, 12))
    def match(self, count: int) -> None:
        self.engines.match(self.documents(count))

    @rule(again=st.integers(1, 3))
    def match_large(self, again: int) -> None:
        """Match a document on which a quadratic query is too expensive, and is suspended."""
        expensive = self.chance.choice(TEMPLATES[EXPENSIVE]).format(self.chance.randrange(9))
        self.numbers.append(self.engines.subscribe(expensive, self.chance.choice([">", "a.>"])))
        for _ in range(again):
            legs = "".join(
                f"<leg><altitude>{self.chance.randrange(9)}</altitude></leg>" for _ in range(1_030)
            )
            payload = f"<flight><id>1</id>{legs}</flight>".encode()
            # The query is suspended from the large document on, at any position of the batch.
            documents = [*self.documents(4), event(payload, stream=self.chance.choice(STREAMS))]
            self.chance.shuffle(documents)
            self.engines.match(documents)

    @precondition(lambda self: self.numbers)
    @rule(data=st.data(), liveness=st.sampled_from(Liveness))
    def select(self, data: Any, liveness: Liveness) -> None:
        documents = self.documents(6)
        verdicts = self.engines.match(documents)
        valid = [d for d, v in zip(documents, verdicts, strict=True) if isinstance(v, Accepted)]
        self.engines.select(data.draw(st.sampled_from(self.numbers)), valid, liveness)

    @rule(kind=st.sampled_from([b'scheduled"', b'charter"']))
    def replace_dtd(self, kind: bytes) -> None:
        """Replace a DTD, which changes the defaults."""
        dtd = self.dtds_by_kind["1.0", kind]
        self.engines.dtds.by_reference[dtd.reference] = dtd

    @rule()
    def remove_dtd_for_a_while(self) -> None:
        """Match without a DTD, so that its documents are not accepted."""
        kept = dict(self.engines.dtds.by_reference)
        del self.engines.dtds.by_reference[self.dtds_by_kind["1.0", b'charter"'].reference]
        self.engines.match(self.documents(4))
        self.engines.dtds.by_reference.update(kept)

    @invariant()
    def check_counts(self) -> None:
        if hasattr(self, "engines"):
            assert self.engines.count("subscriptions") == len(self.numbers)
            TOTALS["suspended"] += len(self.engines.suspended)
            TOTALS["recognised"] += self.engines.count("recognised")
            if not self.numbers:
                assert (
                    self.engines.count("templates") == self.engines.count("distinct_queries") == 0
                )


#: Totals of all runs, which show that the test covers these cases.
TOTALS: Counter[str] = Counter()


@pytest.mark.parametrize("examples", [3, pytest.param(50, marks=pytest.mark.soak)])
def test_results_equal_the_references_after_any_changes(examples: int) -> None:
    run_state_machine_as_test(
        ChangingSubscriptions,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert TOTALS["recognised"] > 0
    assert TOTALS["suspended"] > 0
