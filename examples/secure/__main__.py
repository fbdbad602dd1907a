"""Three nodes with TLS and accounts: a stranger, a low account and malicious nodes fail.

Run it with `./dev secure` or `python -m examples.secure`; `--help` lists the options.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

import attrs
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.subscription import Subscription
from broker.errors import BrokerError
from broker.event.envelope import EventType, SecurityLevel
from examples.network.__main__ import read_network
from examples.network.subscribers import START
from examples.publish import FLIGHT
from examples.roaming.nodes import run_nodes
from examples.secure.nodes import FORGER, NAMES, NEIGHBOUR, STRANGER, SecureNodes

LOOK: Final = 0.1
#: Events of each level.
EVENTS: Final = 20


@attrs.define
class Attempts:
    """Attempts with their outcome; each must have the expected one."""

    rows: list[tuple[str, str, bool]] = attrs.field(factory=list)

    def add(self, attempt: str, outcome: str, *, is_right: bool) -> None:
        self.rows.append((attempt, outcome, is_right))

    async def expect_error(self, attempt: str, code: str, action: Awaitable[object]) -> None:
        """Record an action that must fail with an error code."""
        try:
            async with asyncio.timeout(START):
                await action
        except BrokerError as error:
            self.add(attempt, f"{error.code}: {error}", is_right=error.code == code)
        else:
            self.add(attempt, "it succeeded", is_right=False)

    def print_table(self, console: Console) -> int:
        """Return the number of wrong outcomes."""
        table = Table("attempt", "outcome", "", box=box.SIMPLE, pad_edge=False)
        for attempt, outcome, is_right in self.rows:
            verdict = "as it must be" if is_right else "[bold red]WRONG[/]"
            table.add_row(escape(attempt), escape(outcome), verdict)
        console.print(table)
        return sum(not is_right for _, _, is_right in self.rows)


class Example:
    """The attempts at running nodes."""

    def __init__(self, nodes: SecureNodes, stack: contextlib.AsyncExitStack) -> None:
        self._nodes = nodes
        self._stack = stack
        self._feed: AsyncioClient | None = None
        self.attempts = Attempts()

    async def log_in(self, account: str, node: str, client_id: str = "") -> AsyncioClient:
        client = await self._stack.enter_async_context(
            self._connect(account, node, self._nodes.secrets[account], client_id)
        )
        await client.when_connected(START)
        return client

    async def wait_until_linked(self) -> None:
        for name in NAMES:
            client = await self.log_in("admin", name)
            while True:
                members = (await read_network(client)).get("members", ())
                if {each["node"] for each in members if each["reachable"]} == set(NAMES):
                    break
                await asyncio.sleep(LOOK)

    async def try_as_stranger(self) -> None:
        node = NAMES[0]
        await self.attempts.expect_error(
            "a stranger guesses a secret",
            "authentication-failed",
            self._try_login("feed", "a guess"),
        )
        await self.attempts.expect_error(
            "a stranger invents an account",
            "authentication-failed",
            self._try_login("nobody", "a guess"),
        )
        answer = await asyncio.to_thread(send_in_cleartext, self._nodes.port(node))
        self.attempts.add(
            "a stranger speaks without TLS",
            f"the node closes the connection with {len(answer)} bytes",
            is_right=b"xmlbroker" not in answer,
        )

    async def try_as_low_account(self) -> None:
        display = await self.log_in("display", NAMES[1])
        analyst = await self.log_in("analyst", NAMES[2])
        low, all_levels = [
            await client.subscribe("true()", "flights.>") for client in (display, analyst)
        ]
        feed = self._feed = await self.log_in("feed", NAMES[0])
        for number in range(2 * EVENTS):
            level = SecurityLevel.HIGH if number % 2 else SecurityLevel.LOW
            flight = EventType("flight", "1.0", security_level=level)
            await feed.publish("flights.ual", FLIGHT, flight)
        levels = await take_levels(all_levels, 2 * EVENTS)
        self.attempts.add(
            f"the account with clearance high reads at {NAMES[2]}",
            format_levels(levels),
            is_right=levels == {"low": EVENTS, "high": EVENTS},
        )
        levels = await take_levels(low, EVENTS)
        self.attempts.add(
            f"the account with clearance low reads at {NAMES[1]}",
            format_levels(levels),
            is_right=levels == {"low": EVENTS},
        )
        flight = EventType("flight", "1.0", security_level=SecurityLevel.LOW)
        await self.attempts.expect_error(
            "it publishes", "not-allowed", display.publish("flights.ual", FLIGHT, flight)
        )
        await self.attempts.expect_error(
            "it asks for the status", "not-allowed", display.ask("status")
        )
        await self.attempts.expect_error(
            "it uses the ClientId of the feed",
            "not-allowed",
            self._try_login("display", self._nodes.secrets["display"], "feed"),
        )
        admin = await self.log_in("admin", NAMES[1])
        with self._nodes.accounts(NAMES[1]).change() as accounts:
            del accounts["display"]
        answer = await admin.ask("reload")
        self.attempts.add(
            "its account is revoked, and the node reloads",
            f"{answer['sessions_ended']} session ended",
            is_right=answer["sessions_ended"] == 1,
        )
        await self.attempts.expect_error(
            "it goes on", "authentication-failed", ask_until_failure(display)
        )

    async def try_as_foreign_node(self) -> None:
        """Start a node that has the key of the network, and a certificate of another authority."""
        stranger = self._nodes[STRANGER]
        with run_nodes([stranger]):
            async with asyncio.timeout(START):
                while "certificate verify failed" not in stranger.log():
                    await asyncio.sleep(LOOK)
            await asyncio.sleep(1.0)
            admin = await self.log_in("admin", NAMES[0])
            members = {each["node"] for each in (await read_network(admin))["members"]}
        self.attempts.add(
            "a node with a certificate of another authority joins",
            f"the cluster has {', '.join(sorted(members))}",
            is_right=members == set(NAMES),
        )

    async def try_as_forger(self) -> None:
        """Publish events that reach another cluster through a node that changes them."""
        assert self._feed is not None
        flight = EventType("flight", "1.0", security_level=SecurityLevel.LOW)
        with run_nodes([self._nodes[FORGER], self._nodes[NEIGHBOUR]]):
            analyst = await self.log_in("analyst", NEIGHBOUR)
            subscription = await analyst.subscribe("true()", "flights.>")
            admin = await self.log_in("admin", NEIGHBOUR)
            async with asyncio.timeout(START):
                while not (forged := (await read_network(admin))["forged"]):
                    await self._feed.publish("flights.ual", FLIGHT, flight)
                    await asyncio.sleep(LOOK)
            arrived = await take_levels(subscription, 1, seconds=2.0)
        self.attempts.add(
            "a member changes events on their way",
            f"{NEIGHBOUR} rejects frames of {', '.join(forged)}; {arrived.total()} events arrive",
            is_right=forged.keys() == {FORGER} and not arrived,
        )

    def _connect(self, account: str, node: str, secret: str, client_id: str = "") -> AsyncioClient:
        return connect(
            self._nodes.endpoint(node),
            account=account,
            secret=secret,
            client_id=client_id,
            trust=self._nodes.authority.certificate,
        )

    async def _try_login(self, account: str, secret: str, client_id: str = "") -> None:
        async with self._connect(account, NAMES[0], secret, client_id) as client:
            await client.when_connected(START)


def send_in_cleartext(port: int) -> bytes:
    """Send a message without TLS, and return what the node sends until it closes."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=START) as connection:
        connection.sendall(b"\0\0\0\x10xmlbroker, hello")
        with contextlib.suppress(ConnectionError):
            while data := connection.recv(1 << 16):
                received += data
    return received


async def take_levels(
    subscription: Subscription, count: int, seconds: float = START
) -> Counter[str]:
    """Return the number of events by level, of `count` events and those that follow at once."""
    levels: Counter[str] = Counter()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds) as limit:
            async for event in subscription:
                levels[event.header.security_level.value] += 1
                if levels.total() >= count:
                    limit.reschedule(asyncio.get_running_loop().time() + 1.0)
    return levels


def format_levels(levels: Counter[str]) -> str:
    return ", ".join(f"{count} events of level {level}" for level, count in levels.items())


async def ask_until_failure(client: AsyncioClient) -> None:
    while True:
        await client.ask("durable-positions")
        await asyncio.sleep(LOOK)


async def run_example(nodes: SecureNodes, console: Console) -> int:
    """Return the number of wrong outcomes."""
    async with contextlib.AsyncExitStack() as stack:
        example = Example(nodes, stack)
        with console.status("three nodes start, and find each other"):
            async with asyncio.timeout(START):
                await example.wait_until_linked()
        with console.status("a stranger and a low account try"):
            await example.try_as_stranger()
            await example.try_as_low_account()
        with console.status("a foreign node tries"):
            await example.try_as_foreign_node()
        with console.status("a member of another cluster changes events"):
            await example.try_as_forger()
    return example.attempts.print_table(console)


def print_audit(nodes: SecureNodes, console: Console) -> None:
    for name in NAMES:
        lines = nodes.audit_log(name).read_text().splitlines()
        records = [json.loads(line) for line in lines]
        failed = Counter(each["result"] for each in records if each.get("result", "ok") != "ok")
        found = ", ".join(f"{count} {code}" for code, count in failed.items()) or "no failures"
        console.print(f"audit log of {name}: {len(records)} records, {found}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="keep certificates, data and logs in this folder")
    arguments = parser.parse_args()
    console = Console()
    # SIGTERM must end the nodes too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        if arguments.keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xmlbroker-")))
        else:
            folder = arguments.keep.resolve()
        nodes = SecureNodes(folder)
        try:
            with run_nodes(nodes.members):
                wrong = asyncio.run(run_example(nodes, console))
            print_audit(nodes, console)
        except KeyboardInterrupt:
            console.print("interrupted; the nodes are stopped")
            return 130
        except (BrokerError, OSError, TimeoutError) as error:
            text = str(error) or f"no result within {START:g} s"
            console.print(f"[bold red]{escape(text)}[/]; --keep FOLDER keeps the nodes' logs")
            wrong = 1
    if wrong == 0:
        console.print("[bold green]all attempts failed that must fail[/]")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
