from __future__ import annotations

import attrs
import pytest

from broker.errors import ClearanceTooLow, GaveUp, NotAllowed
from broker.event.site_coverage import CoveredMessages
from broker.event.site_notice import MissingMessages, SiteCoverage, SiteStatus
from tests.cli.chat_room.events import NOON, chat_event
from tests.cli.fake_node import FakeNode, Published, run

NOW = NOON // 1_000
JOIN = ("chat", "ops", "--as", "anna", "--plain")


def test_lines_of_the_input_are_published() -> None:
    node = FakeNode()
    result = run(node, *JOIN, stdin="hello\n\n//who\n")
    assert result.exit_code == 0, result.output
    assert [(each.stream, each.event_type.name, each.payload) for each in node.published] == [
        ("chat.ops", "chat", b'<chat author="anna"><presence state="joined"/></chat>'),
        ("chat.ops", "chat", b'<chat author="anna"><text>hello</text></chat>'),
        ("chat.ops", "chat", b'<chat author="anna"><text>/who</text></chat>'),
        ("chat.ops", "chat", b'<chat author="anna"><presence state="left"/></chat>'),
    ]
    (asked,) = node.subscriptions
    assert (asked["query"], asked["streams"], asked["start"].kind) == ("/chat", "chat.ops", "time")


def test_the_room_is_printed() -> None:
    node = FakeNode(
        stored=[
            SiteStatus("ops", "c", "suspected", "silent", NOW, NOW + 60_000),
            chat_event("a", 1, text="first"),
            chat_event("a", 3, text="third"),
            chat_event("c", 2, text="second", is_late=True),
            MissingMessages("ops", "c", 1, 3, 5, "lost"),
        ]
    )
    result = run(node, *JOIN, "--lines", "3", stdin="")
    assert result.stdout.splitlines() == [
        "late 22:13:20.002 ± 2 ms c c-1: second",
        "missing: messages 3 to 5 of site c (lost)",
        "22:13:20.003 ± 2 ms a a-1: third",
        "site c: suspected since 22:13:20.000, silent, until 22:14:20.000 at most",
        "here: nobody",
    ]


def test_own_texts_of_the_history_have_their_sites() -> None:
    covered = (CoveredMessages("a", 1, 1, 1),)
    node = FakeNode(
        client_id="a-1",
        stored=[
            *(SiteStatus("ops", site, "connected", "", NOW) for site in "bc"),
            *(SiteCoverage("ops", site, covered) for site in "abc"),
            chat_event("a", 1, text="first"),
            chat_event("a", 2, text="second"),
        ],
    )
    result = run(node, *JOIN, stdin="")
    assert result.stdout.splitlines()[:2] == [
        "22:13:20.001 ± 2 ms a a-1: first [a b c]",
        "22:13:20.002 ± 2 ms a a-1: second [a] waits for b, c",
    ]


def test_text_of_others_can_not_control_the_terminal() -> None:
    event = chat_event("a", 1, text="\x9b2J\u202etxt\n\u2028done", author="\u200fa: b")
    notice = SiteStatus("ops", "c", "suspected", "\x1b[2J\u2066", NOW)
    result = run(FakeNode(stored=[event, notice]), *JOIN, stdin="")
    assert "? b <a-1>: \\x9b2J\\x202etxt done" in result.stdout
    assert not set(result.stdout) & set("\x1b\x9b\u202e\u200f\u2028\u2066")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("chat", "a.b", "--as", "anna"), "the room 'a.b' has a dot"),
        (("chat", "a b", "--as", "anna"), "the room 'a b' is not 1 to 64"),
        (("chat", "ops", "--as", "an:na"), "the name 'an:na' is not"),
        (("chat", "ops"), "give a name with --as"),
        (("chat", "ops", "--as", "a", "--from", "soon"), "give new, all, stored"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[str, ...], text: str) -> None:
    result = run(FakeNode(), *arguments)
    assert result.exit_code != 0 and text in result.stderr


def test_a_node_that_is_away_is_named() -> None:
    result = run(FakeNode(unreachable=GaveUp("no node answered")), *JOIN, stdin="")
    assert result.exit_code == 1
    assert result.stderr.startswith("xmlbroker: no node answered; start a node")


def test_without_the_right_to_publish_nobody_joins() -> None:
    node = FakeNode(refuse=lambda _: NotAllowed("anna may not publish on chat.ops"))
    result = run(node, *JOIN, stdin="hello\n")
    assert result.exit_code == 1 and "anna may not publish on chat.ops" in result.stderr


def test_a_refused_text_is_reported() -> None:
    def refuse(published: Published) -> ClearanceTooLow | None:
        is_text = b"<text>" in (published.payload or b"")
        return ClearanceTooLow("the sites see less") if is_text else None

    result = run(FakeNode(refuse=refuse), *JOIN, stdin="hello\n" + "x" * 5_000 + "\n")
    assert result.exit_code == 1
    assert "not sent: the sites see less" in result.stderr
    assert "not sent: the text has 5000 characters" in result.stderr


def test_an_account_is_the_name_by_default() -> None:
    node = FakeNode()
    run(node, "chat", "ops", "--account", "zbw", "--plain", stdin="")
    assert node.published[0].payload is not None and b'author="zbw"' in node.published[0].payload
    assert node.connections[0]["account"] == "zbw"


def test_commands_show_members_and_sites() -> None:
    status = SiteStatus("ops", "c", "connected", "", NOW)
    node = FakeNode(stored=[attrs.evolve(status)])
    result = run(node, *JOIN, stdin="/who\n/sites\n/help\n/quit\nnot sent\n")
    assert "site c: connected since 22:13:20.000" in result.stdout
    assert "/quit leaves" in result.stderr
    assert len(node.published) == 2
