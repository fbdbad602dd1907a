"""Robust Chat at three sites, whose links go silent twice: what every screen shows.

Two scripted users at each site talk. Site c is cut off for some seconds; after the repair late
messages are at their places. Then it is cut off for longer than its small log reaches back: it is
disconnected, and the messages that no site has any more are named. Run it with `./dev chat` or
`python -m examples.chat`; `--help` lists the options.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from broker.cli.chat_room.line_format import late_as_text, line_as_text, missing_as_text
from broker.cli.chat_room.transcript import ChatLine
from broker.errors import BrokerError
from examples.chat.scripted_user import ROOM, ScriptedUser
from examples.chat.sites import CUT_OFF, NAMES, SMALL_LOG, START, SUSPECT, Sites
from examples.chat.verdict import Verdict

USERS: Final = {"a": ("anna", "axel"), "b": ("ben", "bea"), "c": ("carol", "carl")}
#: Seconds of talk before, between and after the outages.
TALK: Final = 4.0
#: Seconds of talk on both sides of a partition.
APART: Final = 4.0
#: A lost link is suspected within this time.
SUSPECTED: Final = 6.0
#: Beyond the suspicion, a site is disconnected within this time.
DISCONNECTED: Final = 3.0
#: A repaired link is connected, and late messages are there, within this time.
REPAIRED: Final = 15.0
#: Long texts per second and user at the site with the small log, while it is cut off.
PASTES: Final = 20
_LOOK: Final = 0.02
_SHOWN: Final = 8


class BrokenPromise(Exception):
    """Something did not happen in its time."""


class ChatDemo:
    def __init__(self, sites: Sites, console: Console) -> None:
        self.sites = sites
        self.console = console
        self.users = [
            ScriptedUser(name, site, sites.nodes[site].endpoint, seed)
            for seed, (site, name) in enumerate(
                (site, name) for site, names in USERS.items() for name in names
            )
        ]
        self._began = time.monotonic()

    async def run(self) -> list[str]:
        """Return the broken promises."""
        async with contextlib.AsyncExitStack() as stack:
            async with asyncio.timeout(START):
                await self.sites.wait_until_connected()
            for user in self.users:
                await stack.enter_async_context(user.join())
            try:
                await self._wait_for_connections()
                self.say(f"three sites are connected, and {len(self.users)} users talk")
                async with self._talking(self.users):
                    await asyncio.sleep(TALK)
                    await self._lose_link()
                    await asyncio.sleep(TALK)
                    await self._lose_messages()
                    await asyncio.sleep(TALK)
                await self._wait_for_transcripts()
                broken = []
            except BrokenPromise as error:
                broken = [str(error)]
            verdict = Verdict(self.users)
            self.console.print(verdict.table())
            return broken + verdict.broken_promises()

    async def _lose_link(self) -> None:
        began = await self._silence()
        await self._wait_for_state("suspected", began, SUSPECTED)
        await asyncio.sleep(APART)
        await self._repair()
        for site in NAMES:
            if not any(user.screen.late for user in self._users_at(site)):
                raise BrokenPromise(f"no late message is shown at {site}")
        self._show_screen(self.users[0])

    async def _lose_messages(self) -> None:
        began = await self._silence()
        await self._wait_for_state("suspected", began, SUSPECTED)
        pasting = asyncio.create_task(self._paste())
        try:
            limit = SUSPECTED + SUSPECT + DISCONNECTED
            await self._wait_for_state("disconnected", began, limit)
        finally:
            pasting.cancel()
            await asyncio.gather(pasting, return_exceptions=True)
        await asyncio.gather(*(user.wait_for_receipts() for user in self._users_at(CUT_OFF)))
        await self._repair()
        for site in NAMES:
            if site != CUT_OFF and not any(u.screen.missing for u in self._users_at(site)):
                raise BrokenPromise(f"no missing message is shown at {site}")
        self._show_missing(self.users[0])

    async def _paste(self) -> None:
        """Send half as much again as the small log has room for."""
        users = self._users_at(CUT_OFF)
        size = 0
        while size < 3 * SMALL_LOG // 2:
            for user in users:
                user.paste()
                size += 4_000
            await asyncio.sleep(1 / PASTES)

    async def _silence(self) -> float:
        # On a busy machine messages may be late, and their site suspected for that.
        await self._wait_for_connections()
        self.sites.links.silence(CUT_OFF)
        self.say(f"[bold red]all links of {CUT_OFF} go silent[/]")
        return time.monotonic()

    async def _repair(self) -> None:
        self.sites.links.repair(CUT_OFF)
        self.say("[bold green]the links are repaired[/]")
        began = time.monotonic()
        await self._wait_for_state("connected", began, REPAIRED)
        await self._wait_for_transcripts()
        self.say(f"all transcripts are equal after {time.monotonic() - began:.1f} s")

    async def _wait_for_transcripts(self) -> None:
        """Wait until no screen lacks a message that was sent before, without a notice."""
        await asyncio.gather(*(user.wait_for_receipts() for user in self.users))
        sent = [id for user in self.users for id in user.sent]

        def are_complete() -> bool:
            verdict = Verdict(self.users)
            return not any(set(sent).intersection(verdict.unexplained(user)) for user in self.users)

        await self._wait_until(are_complete, REPAIRED, "equal transcripts", look=0.2)

    async def _wait_for_state(self, state: str, began: float, limit: float) -> None:
        """Wait until all sites see the state on both sides of the cut."""

        def is_seen() -> bool:
            return all(
                user.screen.has_shown(site, state, began)
                for user in self.users
                for site in NAMES
                if (user.site == CUT_OFF) != (site == CUT_OFF)
            )

        left = began + limit - time.monotonic()
        await self._wait_until(is_seen, left, f"{state} within {limit:g} s")
        seconds = time.monotonic() - began
        self.say(f"a and b show c as {state}, and c them, after {seconds:.1f} s")

    async def _wait_for_connections(self) -> None:
        def are_seen() -> bool:
            return all(self._see(site, "connected") for site in NAMES)

        await self._wait_until(are_seen, START, "connection of all sites")

    def _see(self, site: str, state: str) -> bool:
        return all(
            user.screen.last_status(site) == state for user in self.users if user.site != site
        )

    async def _wait_until(
        self, is_true: Callable[[], bool], seconds: float, what: str, look: float = _LOOK
    ) -> None:
        deadline = time.monotonic() + seconds
        while not is_true():
            if time.monotonic() > deadline:
                raise BrokenPromise(f"after {time.monotonic() - self._began:.1f} s: no {what}")
            await asyncio.sleep(look)

    @contextlib.asynccontextmanager
    async def _talking(self, users: Sequence[ScriptedUser]) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(user.talk()) for user in users]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _users_at(self, site: str) -> list[ScriptedUser]:
        return [user for user in self.users if user.site == site]

    def _show_screen(self, user: ScriptedUser) -> None:
        self.console.print(f"the screen of {user.name} at {user.site}, around late messages:")
        messages = user.room.transcript.messages
        late = [index for index, line in enumerate(messages) if line.is_late]
        first = max(0, late[0] - 2)
        for line in messages[first : first + _SHOWN]:
            self._print_line(line)
        example = user.screen.late[0]
        self.console.print("as a line for a pipe or screen reader:")
        text = late_as_text(example.line, example.before, example.after)
        self.console.print(f"    {text}", markup=False, highlight=False)

    def _show_missing(self, user: ScriptedUser) -> None:
        self.console.print(f"the screen of {user.name} at {user.site}, at the missing messages:")
        transcript = user.room.transcript
        for missing in transcript.missing[:2]:
            before, after = transcript.neighbours_of(missing)
            self._print_line(before)
            self.console.print(f"    {missing_as_text(missing)}", style="red", markup=False)
            self._print_line(after)

    def _print_line(self, line: ChatLine | None) -> None:
        if line is not None:
            style = "yellow" if line.is_late else None
            text = line_as_text(line)[:100]
            self.console.print(f"    {text}", style=style, markup=False, highlight=False)

    def say(self, text: str) -> None:
        self.console.print(f"{time.monotonic() - self._began:5.1f} s  {text}", highlight=False)


async def run_demo(folder: Path, console: Console, stay: bool) -> list[str]:
    sites = Sites(folder)
    async with sites.run():
        broken = await ChatDemo(sites, console).run()
        if stay:
            await stay_running(sites, console)
        return broken


async def stay_running(sites: Sites, console: Console) -> None:
    """Run until the input ends; its lines cut and repair links."""
    for name in NAMES:
        endpoint = sites.nodes[name].endpoint
        command = f"xmlbroker chat {ROOM} --as NAME --node {endpoint}"
        console.print(f"join at {name}:  {command}", highlight=False, soft_wrap=True)
    console.print("`cut a` silences the links of a, `repair a` repairs them; Ctrl-C ends")
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode(errors="replace"):
        match line.split():
            case ["cut", site] if site in NAMES:
                sites.links.silence(site)
            case ["repair", site] if site in NAMES:
                sites.links.repair(site)
            case _:
                console.print(f"`cut` or `repair`, with one of {', '.join(NAMES)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stay", action="store_true", help="keep the sites running at the end")
    parser.add_argument("--keep", type=Path, help="keep the nodes' data and logs in this folder")
    arguments = parser.parse_args()
    console = Console()
    # SIGTERM must end the nodes too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        if arguments.keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xmlbroker-")))
        else:
            folder = arguments.keep.resolve()
        try:
            broken = asyncio.run(run_demo(folder, console, arguments.stay))
        except KeyboardInterrupt:
            console.print("interrupted; the nodes are stopped")
            return 130
        except (BrokerError, OSError, TimeoutError) as error:
            broken = [str(error) or f"a node did not answer in {START:g} s"]
    for each in broken:
        console.print(f"[bold red]broken:[/] {escape(each)}", highlight=False)
    if broken:
        console.print("--keep FOLDER keeps the nodes' logs")
        return 1
    console.print("[bold green]nothing twice, everything in order, every loss was told[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
