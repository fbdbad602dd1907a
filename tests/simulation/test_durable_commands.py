"""`xmlbroker durable` on a running node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.client.effects import ResumePoint
from broker.config import Settings
from broker.errors import (
    BadPosition,
    NotAllowed,
    SubscriptionHeld,
    UnknownSubscription,
)
from broker.event.envelope import SecurityLevel
from broker.node.metrics import NodeCollector
from broker.node.status import build_status
from broker.subscriptions.durable_report import MAX_NAMED
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader
from tests.simulation.test_identities import ACCOUNTS, asdi, member


class DurableSetup:
    def __init__(self, world: World) -> None:
        self.world = world
        self.publisher = Publisher(world.client("publisher"))
        self.incarnation = 0
        self.reader = self.start_reader()
        self.asker = world.client("asker")
        world.run(0.3)

    def start_reader(self, **settings: Any) -> Reader:
        self.incarnation += 1
        client = self.world.client("reader", incarnation=self.incarnation, **settings)
        self.reader = Reader(self.world, client, durable="d")
        self.world.run(0.3)
        return self.reader

    def close_reader(self) -> None:
        self.read()
        assert self.world.wait(self.reader.client.close()) is True

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.publisher.publish()
        self.world.run_until(lambda: not self.publisher.client.unacknowledged)
        self.world.run(0.2)

    def read(self) -> list[int]:
        for _ in range(5):
            self.reader.read()
            self.world.run(0.3)
        return [event.event_id.sequence_number for event in self.reader.events]

    def ask(self, what: str, asker: Client | None = None, /, **said: str) -> Any:
        said = {"client": "reader", "name": "d", **said}
        asked = (asker or self.asker).ask(f"durable-{what}", **said)
        return self.world.wait(asked)


@pytest.fixture
def site() -> Iterator[DurableSetup]:
    with World(1) as world:
        yield DurableSetup(world)


def numbers(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def test_lag_counts_unprocessed_events_of_the_log(site: DurableSetup) -> None:
    site.publish(3)
    site.read()
    (row,) = site.ask("list")["subscriptions"]
    assert (row["client"], row["name"], row["state"]) == ("reader", "d", "in-use")
    assert (row["events"], row["bytes"], row["seconds"]) == (0, 0, 0.0)
    site.close_reader()
    site.publish(4)
    site.world.run(10.0)
    site.publish(1)
    row = site.ask("show")
    assert (row["state"], row["events"], row["session"]) == ("away", 5, None)
    assert 10.0 <= row["seconds"] < 11.5
    used = site.world.node.event_log.bounds.used_bytes
    assert row["bytes"] == used * 5 // 8
    site.start_reader()
    assert site.read() == numbers(4, 8)
    row = site.ask("show")
    assert row["events"] == 0 and row["session"]["delivered"] == 5


def test_lag_survives_a_restart(site: DurableSetup) -> None:
    site.publish(3)
    site.close_reader()
    site.publish(4)
    before = site.ask("show")
    site.world.kill_node()
    site.world.start_node()
    site.world.run(1.0)
    after = site.ask("show")
    assert (before["events"], before["before_log"]) == (after["events"], after["before_log"])
    assert after["events"] == 4 and after["seconds"] > before["seconds"]


def test_subscription_behind_the_start_of_the_log_has_the_largest_lag() -> None:
    settings = Settings()
    settings = attrs.evolve(settings, log=attrs.evolve(settings.log, max_age=5.0))
    with World(1, settings=settings) as world:
        site = DurableSetup(world)
        site.publish(1)
        site.close_reader()
        site.publish(40)
        client = world.client("many")
        for number in range(MAX_NAMED):
            client.subscribe(durable=f"n{number}")
        world.run(1.0)
        world.kill_client(client)
        world.run(10.0)
        site.publish(1)
        row = site.ask("show")
        assert row["before_log"] >= 39
        named = build_status(world.node)["durable"]["furthest_behind"]
        assert (named[0]["client"], named[0]["before_log"]) == ("reader", row["before_log"])


def test_events_that_the_log_no_longer_holds_are_counted_apart() -> None:
    settings = Settings()
    settings = attrs.evolve(settings, log=attrs.evolve(settings.log, max_age=5.0))
    with World(1, settings=settings) as world:
        site = DurableSetup(world)
        site.publish(1)
        site.close_reader()
        site.publish(4)
        world.run(10.0)
        site.publish(2)
        row = site.ask("show")
        assert row["before_log"] + row["events"] == 6
        assert row["before_log"] >= 3


@pytest.mark.parametrize("behind", [False, True])
def test_paused_subscription_gets_nothing_until_resumed(site: DurableSetup, behind: bool) -> None:
    site.publish(3)
    if not behind:
        site.read()
    row = site.ask("pause")
    assert row["state"] == "paused"
    site.publish(3)
    got = site.read()
    assert got == numbers(1, 3)
    assert site.ask("show")["events"] == 3
    site.ask("resume")
    assert site.read() == numbers(1, 6)
    site.publish(1)
    assert site.read() == numbers(1, 7)
    site.world.check_outcomes()


def test_pause_survives_restarts_of_client_and_node(site: DurableSetup) -> None:
    site.publish(2)
    site.close_reader()
    site.ask("pause")
    site.world.kill_node()
    site.world.start_node()
    site.publish(2)
    site.start_reader()
    assert site.read() == []
    assert site.reader.subscription is not None
    site.publish(1)
    site.ask("resume")
    assert site.read() == numbers(3, 5)


@pytest.mark.parametrize(
    ("to", "again", "skipped", "comes"),
    [("start", 4, 0, numbers(1, 8)), ("end", 0, 3, [8]), ("time", 0, 2, numbers(7, 8))],
)
def test_reset_moves_the_position_and_reports_repeated_and_skipped_events(
    site: DurableSetup, to: str, again: int, skipped: int, comes: list[int]
) -> None:
    site.publish(4)
    with pytest.raises(SubscriptionHeld, match="in use"):
        site.ask("reset", to="end")
    site.close_reader()
    site.publish(2)
    site.world.run(1.0)
    moment = str(site.world.wall_clock())
    site.publish(1)
    row = site.ask("reset", to=moment if to == "time" else to)
    assert (row["reset"]["again"], row["reset"]["skipped"]) == (again, skipped)
    assert row["reset"]["lag_before"]["events"] == 3
    site.world.kill_node()
    site.world.start_node()
    site.start_reader()
    site.publish(1)
    assert site.read() == comes


def test_reset_accepts_a_position_and_rejects_invalid_targets(site: DurableSetup) -> None:
    site.publish(4)
    site.close_reader()
    log = site.world.node.event_log
    origin = f"{log.origin}:{log.bounds.epoch}"
    site.ask("reset", to=f"{origin}:2")
    for to in ("", "yesterday", f"{origin}:999"):
        with pytest.raises(BadPosition):
            site.ask("reset", to=to)
    site.start_reader()
    assert site.read() == [3, 4]


def test_deleted_subscription_ends_and_can_start_again(site: DurableSetup) -> None:
    site.publish(2)
    site.read()
    told = site.ask("delete")
    assert told["here"] and not told["elsewhere"] and not told["silent"]
    with pytest.raises(UnknownSubscription):
        site.ask("show")
    with pytest.raises(UnknownSubscription):
        site.ask("delete")
    site.world.run(0.5)
    subscription = site.reader.subscription
    assert subscription is not None and subscription.over
    assert site.reader.client._core.positions.resume_points.find("d") == ResumePoint(
        subscription.position.__class__()
    )
    site.publish(2)
    again = Reader(site.world, site.reader.client, durable="d")
    site.world.run(0.3)
    site.publish(1)
    again.read()
    assert [event.event_id.sequence_number for event in again.events] == [5]


def test_accounts_manage_their_own_subscriptions_and_administrators_all() -> None:
    settings = attrs.evolve(Settings(), accounts=ACCOUNTS)
    with World(1, settings=settings) as world:
        one = member(world, "low-1", "low")
        Reader(world, one, asdi("public"), durable="d")
        two = member(world, "low-2", "low")
        feed, admin = member(world, "feed", "feed"), member(world, "root", "all")
        world.run(1.0)
        Publisher(admin).publish("public", level=SecurityLevel.HIGH)
        world.run(0.5)

        def ask(asker: Client, what: str, **said: str) -> Any:
            return world.wait(asker.ask(f"durable-{what}", **said))

        others: dict[str, str] = {"client": "low-1"}
        for asker, said in ((one, {}), (two, others), (admin, others)):
            session = ask(asker, "show", name="d", **said)["session"]
            # Figures over events that an account may not read are the operators'.
            assert session.get("denied") == (1 if asker is admin else None)
            assert session["delivered"] == 0 and ("seen" in session) is (asker is admin)
            assert ask(asker, "show", name="d", **said)["pattern"] == "public"
            assert ask(asker, "pause", name="d", **said)["state"] == "paused"
            assert [row["name"] for row in ask(asker, "list")["subscriptions"]] == ["d"]
        for what in ("show", "pause", "resume", "reset", "delete", "list"):
            with pytest.raises(NotAllowed):
                ask(feed, what, name="d", client="low-1", to="end")
        assert not ask(feed, "list")["subscriptions"]


def test_lag_metrics_name_a_bounded_number_of_subscriptions(site: DurableSetup) -> None:
    site.close_reader()
    site.publish(1)
    client = site.world.client("many")
    for number in range(MAX_NAMED + 5):
        client.subscribe(durable=f"n{number}")
    site.world.run(1.0)
    told = build_status(site.world.node)["durable"]
    assert told["states"] == {"in-use": MAX_NAMED + 5, "away": 1, "paused": 0, "moved": 0}
    assert len(told["furthest_behind"]) == MAX_NAMED and told["not_named"] == 6
    families = {family.name: family for family in NodeCollector(site.world.node).collect()}
    lag = families["xmlbroker_durable_lag_events"].samples
    assert len(lag) == MAX_NAMED
    assert {"client": "reader", "name": "d"} in [sample.labels for sample in lag]


def test_commands_on_unknown_subscriptions_fail(site: DurableSetup) -> None:
    with pytest.raises(UnknownSubscription):
        site.ask("pause", name="e")
    with pytest.raises(UnknownSubscription):
        site.ask("show", client="nobody")
    assert not site.ask("list", client="nobody")["subscriptions"]
