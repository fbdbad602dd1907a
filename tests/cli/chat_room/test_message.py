"""Payloads of chat events, against their DTD too."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from lxml import etree

from broker.cli.chat_room.message import (
    CHAT,
    MAX_AUTHOR,
    MAX_TEXT,
    ChatMessage,
    Presence,
    check_author,
    read_chat,
    stream_of,
    write_chat,
)
from broker.dtd.catalogue import shipped_folder
from broker.errors import BadName
from broker.event.event_id import EventId
from broker.event.writer import write_event

MESSAGES = [
    ChatMessage("anna", 'hello <there> & "you" ]]>'),
    ChatMessage("an\"na's", "ü \u202e"),
    *(ChatMessage("ben", presence=each) for each in Presence),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_what_is_written_is_read(message: ChatMessage) -> None:
    assert read_chat(write_chat(message)) == message


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_are_valid(message: ChatMessage) -> None:
    document = write_event(EventId("anna", 1, 1, 1), "chat.ops", CHAT, write_chat(message))
    root = etree.fromstring(document)
    folder = Path(shipped_folder())
    text = (folder / "chat-1.0.dtd").read_text().replace("%Mspaces.envelope;", "")
    module = (folder / "mspaces-1.1.mod").read_text().partition("?>")[2]
    head, _, rest = text.partition("?>")[2].partition("<!ENTITY % Mspaces.envelope")
    whole = head + module.replace('<!ENTITY % Mspaces.content "">', "") + rest.partition(">")[2]
    dtd = etree.DTD(io.StringIO(whole))
    assert dtd.validate(root), dtd.error_log


@pytest.mark.parametrize(
    "payload",
    [
        None,
        b"<flight/>",
        b"<chat/>",
        b'<chat author="a"/>',
        b'<chat author="a"><presence state="away"/></chat>',
        b'<chat author="a"><other/></chat>',
        b'<chat author="a"><text/><text/></chat>',
        b"<chat",
    ],
)
def test_other_payloads_are_no_chat(payload: bytes | None) -> None:
    assert read_chat(payload) is None


def test_long_names_and_texts_are_cut() -> None:
    payload = b'<chat author="%s"><text>%s</text></chat>' % (b"a" * 500, b"x" * 9_000)
    found = read_chat(payload)
    assert found is not None
    assert (len(found.author), len(found.text)) == (MAX_AUTHOR, MAX_TEXT)


def test_a_comment_does_not_hide_text() -> None:
    assert read_chat(b'<chat author="a"><text>b<!-- c -->d</text></chat>') == ChatMessage("a", "bd")


@pytest.mark.parametrize("text", ["x" * (MAX_TEXT + 1), "\x1b[2J", "\ud800"])
def test_own_texts_are_checked(text: str) -> None:
    with pytest.raises(ValueError):
        write_chat(ChatMessage("anna", text))


@pytest.mark.parametrize("room", ["", "a.b", "a b", "*", ">", "ä", "x" * 65])
def test_a_room_is_a_token_of_a_stream_name(room: str) -> None:
    with pytest.raises(BadName, match="the room"):
        stream_of(room)


@pytest.mark.parametrize("author", ["", " ", "a:b", "<a>", "x" * 65, "a\x07", "\u202eanna"])
def test_a_name_is_printable(author: str) -> None:
    with pytest.raises(BadName, match="the name"):
        check_author(author)
    assert check_author(" Anna K. ") == "Anna K."
