from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from broker.event.place import Position
from broker.matching.query.query import parse_query
from broker.subscriptions.durable_subscriptions import DurableSubscription, DurableSubscriptions

DAY = 86_400_000


class FakeLog:
    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.waiting: list[Callable[[], object]] = []

    def durables(self) -> list[tuple[bytes, bytes]]:
        return list(self.rows.items())

    def damaged_durables(self) -> list[bytes]:
        return []

    def put_durable(
        self, key: bytes, value: bytes | None, stored: Callable[[], object] | None = None
    ) -> None:
        if value is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = value
        if stored is not None:
            self.waiting.append(stored)


class Setting:
    def __init__(self) -> None:
        self.log = FakeLog()
        self.now = 1000
        self.stored: list[str] = []
        self.durables = self.opened()

    def opened(self) -> DurableSubscriptions:
        return DurableSubscriptions(cast(Any, self.log), lambda: self.now, 30 * DAY)

    def put(self, client_id: str, name: str, offset: int = 0) -> None:
        self.durables.store(
            client_id,
            name,
            pattern="a.>",
            query="/x",
            namespaces={"p": "urn:p"},
            position=Position({"n": (1, offset)}),
            stored=lambda: self.stored.append(name),
        )


def test_a_stored_subscription_survives_a_restart() -> None:
    setting = Setting()
    setting.put("alice", "d", 7)
    expected = DurableSubscription("a.>", "/x", {"p": "urn:p"}, Position({"n": (1, 7)}), 1000)
    assert setting.durables.get("alice", "d") == expected
    assert setting.opened().get("alice", "d") == expected
    assert setting.durables.get("alice", "e") is None


def test_the_callback_runs_after_the_commit() -> None:
    setting = Setting()
    setting.put("alice", "d")
    assert setting.stored == []
    for stored in setting.log.waiting:
        stored()
    assert setting.stored == ["d"]


def test_a_client_is_distinct_from_one_with_a_longer_name() -> None:
    setting = Setting()
    for client_id, name in (("al", "d"), ("al", "e"), ("alice", "d")):
        setting.put(client_id, name)
    assert [setting.durables.count_of_client(client) for client in ("al", "alice", "a")] == [
        2,
        1,
        0,
    ]
    assert len(setting.durables) == 3


def test_the_count_of_a_client_follows_its_subscriptions() -> None:
    setting = Setting()
    for name in ("d", "e", "e", "f"):
        setting.put("alice", name)
    assert (
        setting.durables.count_of_client("alice"),
        setting.opened().count_of_client("alice"),
    ) == (3, 3)
    setting.durables.delete("alice", "d")
    setting.durables.delete("alice", "d")
    assert setting.durables.count_of_client("alice") == 2
    setting.durables.release("alice", "e")
    setting.now += 31 * DAY
    assert setting.durables.delete_expired() == 1
    assert setting.durables.count_of_client("alice") == 1
    setting.put("alice", "e")
    assert (
        setting.durables.count_of_client("alice"),
        setting.opened().count_of_client("alice"),
    ) == (2, 2)


def test_an_acknowledged_position_never_moves_back() -> None:
    setting = Setting()
    setting.put("alice", "d", 7)
    for offset, expected in ((9, 9), (8, 9), (12, 12)):
        setting.now += 1
        setting.durables.acknowledge("alice", "d", Position({"n": (1, offset), "m": (2, 2)}))
        durable = setting.opened().get("alice", "d")
        assert durable is not None
        assert durable.position == Position({"n": (1, expected), "m": (2, 2)})
        assert durable.used_ms == setting.now
    setting.durables.acknowledge("alice", "unknown", Position())
    assert len(setting.durables) == 1


def test_a_deleted_subscription_is_deleted_for_good() -> None:
    setting = Setting()
    setting.put("alice", "d")
    setting.durables.delete("alice", "d")
    setting.durables.delete("alice", "d")
    assert setting.durables.get("alice", "d") is None
    assert len(setting.opened()) == 0


def test_only_unused_subscriptions_expire() -> None:
    setting = Setting()
    setting.put("alice", "old")
    setting.put("alice", "used")
    for name in ("old", "used"):
        setting.durables.release("alice", name)
    setting.now += 20 * DAY
    setting.durables.acknowledge("alice", "used", Position())
    setting.now += 11 * DAY
    assert setting.durables.delete_expired() == 1
    assert setting.durables.get("alice", "old") is None
    assert len(setting.opened()) == 1


def test_a_subscription_in_use_does_not_expire() -> None:
    setting = Setting()
    setting.put("alice", "d")
    setting.now += 40 * DAY
    assert setting.durables.delete_expired() == 0
    setting.durables.release("alice", "d")
    setting.now += 29 * DAY
    assert setting.durables.delete_expired() == 0
    setting.now += 2 * DAY
    assert setting.durables.delete_expired() == 1
    setting.durables.release("alice", "d")
    assert len(setting.opened()) == 0


@pytest.mark.parametrize(
    ("namespaces", "other", "is_same"),
    [
        ({"": "urn:a"}, {"": "urn:a"}, True),
        ({"": "urn:a"}, {"": "urn:b"}, False),
        ({"": "urn:a"}, {}, False),
        ({"q": "urn:q"}, {}, True),
    ],
)
def test_a_stored_query_is_known_by_the_form_in_which_nodes_request_it(
    namespaces: dict[str, str], other: dict[str, str], is_same: bool
) -> None:
    stored = DurableSubscription("a.>", "//x[y > 3]", namespaces, Position({}), 1000)
    asked = parse_query("//x[y > 3]", other)
    # Another node has the query with a prefix.
    requested = parse_query(asked.text, dict(asked.namespaces))
    assert stored.has_query(requested) is is_same
