"""Types registered at a running node: rights, report, restart, archive (M13, M16, X9)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from broker.dtd.reference import DtdReference
from broker.errors import BadDtd, BrokerError, NotAllowed
from broker.event.envelope import EventType, SecurityLevel
from broker.identity import Identity, Rights
from broker.testing.simulation import World
from broker.wire.messages import Ask
from tests.dtd.xsd.schema_types import with_schema, xsd
from tests.simulation.network.test_type_distribution import moved_altitude, report_text
from tests.simulation.test_missing_types import add_source

REPORT = DtdReference("report", "1.0")
NUMBERS = itertools.count()
PAYLOAD = b"<report><id>F</id><reportleg><altitude>4</altitude></reportleg></report>"


def ask(world: World, what: str, text: str, version: str, **more: str) -> Any:
    named = {"type": "report", "version": version, "against": "", **more}
    return world.wait(world.client(f"asks-{next(NUMBERS)}").ask(what, text.encode(), **named))


def test_registered_type_is_known_before_its_first_event_and_after_a_restart() -> None:
    with World(1) as world:
        assert ask(world, "dtd-add", report_text(), "1.0")["registered"]
        again = ask(world, "dtd-add", report_text(), "1.0")
        assert not again["registered"]
        with pytest.raises(BadDtd, match="another DTD is known"):
            ask(world, "dtd-add", report_text("other"), "1.0")
        world.kill_node()
        world.start_node()
        source = add_source(world)
        client = world.client("publisher")
        world.wait(client.publish("s", PAYLOAD, EventType("report", "1.0")))
        assert source.asked == []
        # (c): no source has the text any more.
        world.kill_node()
        world.start_node()
        text = world.wait(world.node.types.find_text(REPORT))
        assert text is not None and b"reportleg" in text
        (path,) = (world.node.settings.node.data / "dtds").glob("*/report-1.0-*.dtd")
        path.write_bytes(path.read_bytes()[:-1])
        world.kill_node()
        world.start_node()
        source = add_source(world)
        client = world.client("later")
        client.publish("s", PAYLOAD, EventType("report", "1.0"))
        world.run(1.0)
        assert [reference for reference, _ in source.asked] == [REPORT]
        assert world.node.types.snapshot()["damaged"] == 1


def test_report_names_the_affected_subscriptions() -> None:
    with World(1) as world:
        ask(world, "dtd-add", report_text(), "1.0")
        reader = world.client("reader")
        world.wait(reader.subscribe("/report/reportleg[altitude > 3]", durable="high"))
        world.wait(reader.subscribe("true()"))
        report = ask(world, "dtd-check", moved_altitude(), "2.0")
        assert report["against"] == "1.0" and report["known"] is None
        assert report["subscriptions"] == {"can-not-match-any-more": 1, "unaffected": 1}
        (affected,) = report["affected"]
        assert (affected["client"], affected["name"]) == ("reader", "high")
        assert "/report/reportleg/altitude" in report["went"]
        assert DtdReference("report", "2.0") not in world.node.dtds.references()
        with pytest.raises(BrokerError, match="no DTD is known here for report 1.5"):
            ask(world, "dtd-add", moved_altitude(), "2.0", against="1.5")


def test_report_names_another_schema_of_equal_elements() -> None:
    element = '<xs:element name="report"/>'
    plain = report_text()
    one = with_schema(plain, ("a.xsd", xsd(element))).decode()
    other = with_schema(plain, ("a.xsd", xsd(element + "<!-- changed -->"))).decode()
    with World(1) as world:
        ask(world, "dtd-add", one, "1.0")
        assert ask(world, "dtd-check", one, "2.0")["changed"] == []
        for text in (other, plain):
            (changed,) = ask(world, "dtd-check", text, "2.0")["changed"]
            assert "XML Schema" in changed


def test_registering_needs_a_right_and_names_are_for_administrators() -> None:
    def identity(*types: str) -> Identity:
        rights = Rights(types=types)
        return Identity("alice", "alice", rights, SecurityLevel.MED, administer=False)

    with World(1) as world:
        reader = world.client("reader")
        ask(world, "dtd-add", report_text(), "1.0")
        world.wait(reader.subscribe("/report/reportleg[altitude > 3]"))
        answers = world.node.types.build_answers(lambda: iter(()))
        said = {"type": "report", "version": "2.0", "against": ""}
        asked = Ask(1, "dtd-add", said, moved_altitude().encode())
        for types in ((), ("reports",), ("flight", "x")):
            for answer in (answers.answer_add, answers.answer_check):
                with pytest.raises(NotAllowed):
                    answer(identity(*types), asked)
        report = world.wait(answers.answer_add(identity("rep"), asked))
        assert report["registered"] and report["affected"] == []
        entry = world.node.types.dtd_store.store.get(DtdReference("report", "2.0"))
        assert entry is not None and entry.owner == "account alice"
