"""Changed accounts and limits of a running node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from broker.config import Settings
from broker.config.identity import AccountSettings
from broker.config.limits import LimitSettings
from broker.config.settings_stream import SettingsStream, encode_settings
from broker.errors import (
    AuthenticationFailed,
    ConfigurationError,
    NotAllowed,
    TooManySessions,
    TooManySubscriptions,
)
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.node.reload import Reload
from broker.testing.flights import FLIGHT, flight
from broker.testing.simulation import World
from tests.config.test_accounts_file import account

ADMIN = account("admin", administer=True, clearance="high", subscribe=[">"], publish=[">"])
FEED = account("feed", publish=["open.>"], subscribe=["open.>", "more.>"], clearance="med")


class ReloadedWorld(World):
    """A world whose configuration the test changes."""

    def __init__(self, *accounts: AccountSettings) -> None:
        super().__init__(1, settings=attrs.evolve(Settings(), accounts=accounts))
        self.error: ConfigurationError | None = None
        self.new = self.node.settings
        self.node.reload = Reload(self.node, self._load, self.node._threads, self.clock)

    def log_in(self, name: str, **options: Any) -> Any:
        client = self.client(name, account=name, secret="secret", **options)
        self.run(1.0)
        return client

    def change_accounts(self, *accounts: AccountSettings) -> None:
        self.new = attrs.evolve(self.new, accounts=accounts)

    def reload(self, admin: Any) -> Any:
        return self.wait(admin.ask("reload"))

    def _load(self) -> SettingsStream:
        if self.error is not None:
            raise self.error
        return encode_settings(self.new)


@pytest.fixture
def world() -> Iterator[ReloadedWorld]:
    world = ReloadedWorld(ADMIN, FEED)
    with world:
        yield world


def test_sessions_of_a_revoked_account_end_at_once(world: ReloadedWorld) -> None:
    admin, feed = world.log_in("admin"), world.log_in("feed")
    world.change_accounts(ADMIN)
    answer = world.reload(admin)
    assert answer == {
        "applied": ["accounts"],
        "restart": [],
        "sessions_ended": 1,
        "subscriptions_ended": 0,
    }
    assert [each.identity.account for each in world.node.acceptor.sessions] == ["admin"]
    world.run(1.0)
    with pytest.raises(AuthenticationFailed, match="revoked"):
        world.wait(feed.ask("durable-positions"))
    again = world.log_in("feed", incarnation=2)
    assert not again.connected
    assert world.node.acceptor.ended_sessions == {"authentication-failed": 1}


def test_a_session_without_a_connection_is_revoked_too(world: ReloadedWorld) -> None:
    admin = world.log_in("admin")
    feed = world.log_in("feed")
    world.kill_client(feed)
    world.run(2.0)
    world.change_accounts(ADMIN)
    assert world.reload(admin)["sessions_ended"] == 1


def test_a_lost_right_ends_its_subscriptions_alone(world: ReloadedWorld) -> None:
    admin, feed = world.log_in("admin"), world.log_in("feed")
    kept = world.wait(feed.subscribe("true()", "open.a"))
    lost = world.wait(feed.subscribe("true()", "more.a"))
    world.wait(feed.publish("open.a", flight(1), FLIGHT))
    narrow = attrs.evolve(
        FEED, subscribe=(StreamPattern.parse("open.>"),), publish=(StreamPattern.parse("new.>"),)
    )
    world.change_accounts(ADMIN, narrow)
    answer = world.reload(admin)
    assert (answer["sessions_ended"], answer["subscriptions_ended"]) == (0, 1)
    world.run(1.0)
    assert feed.connected
    assert isinstance(lost._error, NotAllowed) and kept._error is None
    with pytest.raises(NotAllowed):
        world.wait(feed.publish("open.a", flight(2), FLIGHT))
    world.wait(feed.publish("new.a", flight(3), FLIGHT))


def test_a_lower_clearance_ends_the_session_and_the_client_returns(world: ReloadedWorld) -> None:
    admin, feed = world.log_in("admin"), world.log_in("feed")
    world.change_accounts(ADMIN, attrs.evolve(FEED, clearance=SecurityLevel.LOW))
    assert world.reload(admin)["sessions_ended"] == 1
    world.run(10.0)
    assert feed.connected
    assert world.node.acceptor.ended_sessions == {"account-changed": 1}
    levels = {
        each.identity.account: each.identity.clearance for each in world.node.acceptor.sessions
    }
    assert levels["feed"] is SecurityLevel.LOW


def test_a_client_id_that_is_taken_away_ends_its_session(world: ReloadedWorld) -> None:
    admin = world.log_in("admin")
    world.log_in("feed")
    world.change_accounts(ADMIN, attrs.evolve(FEED, client_ids=("other",)))
    assert world.reload(admin)["sessions_ended"] == 1
    assert world.node.acceptor.ended_sessions == {"not-allowed": 1}


def test_an_error_in_the_file_changes_nothing(world: ReloadedWorld) -> None:
    admin, feed = world.log_in("admin"), world.log_in("feed")
    world.change_accounts(ADMIN)
    world.error = ConfigurationError("node.toml: limits.max_sessions must be ...")
    with pytest.raises(ConfigurationError, match="max_sessions must be"):
        world.reload(admin)
    world.run(1.0)
    assert feed.connected
    world.error = None
    assert world.reload(admin)["sessions_ended"] == 1


def test_limits_apply_at_once(world: ReloadedWorld) -> None:
    admin, feed = world.log_in("admin"), world.log_in("feed")
    limits = LimitSettings(
        max_sessions=2, max_subscriptions_per_client=1, max_depth=7, quarantine_files=0
    )
    world.new = attrs.evolve(world.new, limits=limits)
    answer = world.reload(admin)
    assert sorted(answer["applied"]) == [
        "limits.max_sessions",
        "limits.max_subscriptions_per_client",
        "limits.quarantine_files",
    ]
    assert answer["restart"] == ["limits.max_depth"]
    world.wait(feed.subscribe("true()", "open.a"))
    with pytest.raises(TooManySubscriptions):
        world.wait(feed.subscribe("true()", "open.b"))
    world.change_accounts(ADMIN, FEED, account("third"))
    world.reload(admin)
    world.log_in("third")
    assert world.node.acceptor.refused_connections[TooManySessions.code] >= 1


def test_only_an_administrator_reloads(world: ReloadedWorld) -> None:
    feed = world.log_in("feed")
    world.change_accounts(ADMIN)
    with pytest.raises(NotAllowed):
        world.reload(feed)
    world.run(1.0)
    assert feed.connected


def test_a_login_that_is_under_way_gets_the_new_rights(world: ReloadedWorld) -> None:
    admin = world.log_in("admin")
    waiting = world.client("feed", account="feed", secret="secret")
    world.change_accounts(ADMIN)
    reloaded = admin.ask("reload")
    world.wait(reloaded)
    world.run(5.0)
    assert not waiting.connected
    assert [each.identity.account for each in world.node.acceptor.sessions] == ["admin"]


def test_a_node_without_a_file_has_a_clear_error() -> None:
    with World(1) as world:
        client = world.client("a")
        world.run(1.0)
        with pytest.raises(ConfigurationError, match="without a configuration file"):
            world.wait(client.ask("reload"))
