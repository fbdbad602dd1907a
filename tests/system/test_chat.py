"""Two people at two sites, each at a terminal, through the loss of a link."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from examples.chat.sites import Sites
from tests.system.node_process import PATIENCE
from tests.system.terminal_process import on_terminals
from tests.system.traffic import run_within

pytestmark = pytest.mark.system

#: An outage is noticed, and over, sooner than by default.
OPTIONS = (
    'heartbeat = "200ms"\nliveness = "1500ms"\nsilence = "500ms"\nreconnect = "500ms"\n'
    'suspect = "1m"\ndelta = "2s"\n'
)


@pytest.mark.soak
def test_late_lines_are_marked_between_their_neighbours(tmp_path: Path) -> None:
    async def work() -> None:
        sites = Sites(tmp_path, OPTIONS)

        def join(name: str, site: str) -> list[str]:
            node = sites.nodes[site].endpoint
            return ["chat", "ops", "--as", name, "--plain", "--node", node, "--timeout", "30"]

        async with sites.run():
            await sites.wait_until_connected()
            with on_terminals(join("anna", "a"), join("carl", "c")) as (anna, carl):
                for person in (anna, carl):
                    for other in "abc":
                        if (person, other) not in ((anna, "a"), (carl, "c")):
                            await person.wait_for(f"site {other}: connected")
                await anna.wait_for("here: ")
                anna.enter("together\r")
                await carl.wait_for("a anna: together")
                await anna.wait_for(r"delivered: .* a anna: together \[a b c\]")
                sites.links.silence("c")
                await asyncio.gather(
                    anna.wait_for("site c: suspected since .*, silent"),
                    carl.wait_for("site a: suspected since .*, silent"),
                )
                carl.enter("apart at c\r")
                await carl.wait_for("c carl: apart at c")
                anna.enter("apart at a\r")
                await anna.wait_for("a anna: apart at a")
                assert "apart at c" not in anna.text and "a anna: apart at a" not in carl.text
                sites.links.repair("c")
                await anna.wait_for(
                    r"late [0-9:.]+ ± \d+ ms c carl: apart at c -- after \[.*together\], "
                    r"before \[.*apart at a\]"
                )
                await carl.wait_for(r"[0-9:.]+ ± \d+ ms a anna: apart at a")
                await anna.wait_for(r"delivered: .* a anna: apart at a \[a b c\]")
                await carl.wait_for(r"delivered: .* c carl: apart at c \[a b c\]")
                for person, text in ((anna, "apart at a"), (carl, "apart at c")):
                    assert len(re.findall(f"delivered: .*{text} ", person.text)) == 1
                for person in (anna, carl):
                    person.enter("/quit\r")
                    assert await person.wait_for_exit() == 0

    run_within(work(), 4 * PATIENCE)


def test_screens_have_late_lines_at_their_places(tmp_path: Path) -> None:
    async def work() -> None:
        sites = Sites(tmp_path, OPTIONS)

        def join(name: str, site: str) -> list[str]:
            node = sites.nodes[site].endpoint
            return ["chat", "ops", "fuel", "--as", name, "--node", node, "--timeout", "30"]

        async with sites.run():
            await sites.wait_until_connected()
            with on_terminals(join("anna", "a"), join("carl", "c")) as (anna, carl):
                await anna.wait_for_rows("sites: b connected, c connected", "here: anna at a; carl")
                await carl.wait_for_rows("sites: a connected, b connected")
                anna.enter("togethr\x7fer\r")
                await carl.wait_for_rows("a anna: together")
                await anna.wait_for_rows(r"a anna: together \[a b c\]")
                sites.links.silence("c")
                await anna.wait_for_rows(r"c suspected \(silent\)")
                await carl.wait_for_rows(r"a suspected \(silent\)")
                carl.enter("apart at c\r")
                await carl.wait_for_rows("c carl: apart at c")
                anna.enter("apart at a\r")
                await anna.wait_for_rows(
                    r"a anna: together \[a b c\]", r"a anna: apart at a \[a b\] waits for c"
                )
                sites.links.repair("c")
                await anna.wait_for_rows(
                    *("a anna: together", "late .* c carl: apart at c"),
                    r"a anna: apart at a \[a b c\]",
                )
                await carl.wait_for_rows("c carl: apart at c", "a anna: apart at a")
                carl.enter("\tmore fuel\r")
                await carl.wait_for_rows(r"rooms: ops \[fuel\]", "c carl: more fuel")
                await anna.wait_for_rows(r"rooms: \[ops\] fuel \(\d\)")
                for person in (anna, carl):
                    person.enter("/quit\r")
                    assert await person.wait_for_exit() == 0
                    assert person.text.rstrip().endswith("\x1b[?1049l")

    run_within(work(), 4 * PATIENCE)
