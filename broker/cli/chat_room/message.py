"""Payload of a chat event: a text, or the presence of its author."""

from __future__ import annotations

import enum
import re
from typing import Final
from xml.sax.saxutils import escape, quoteattr

import attrs
from lxml import etree

from broker.errors import BadName
from broker.event.envelope import EventType
from broker.event.stream import check_stream_name

CHAT: Final = EventType("chat", "1.0")
#: Characters of an author's name, and of a text; more are cut off.
MAX_AUTHOR: Final = 64
MAX_TEXT: Final = 4_000
#: They end a name in the lines of views.
NOT_IN_NAMES: Final = re.compile(r"[:<>\[\]]")
_PREFIX: Final = "chat."
_CUT: Final = "…"


class Presence(enum.Enum):
    JOINED = "joined"
    PRESENT = "present"
    LEFT = "left"


@attrs.frozen
class ChatMessage:
    """`author` and `text` are as the publisher wrote them, up to their bounds."""

    author: str
    text: str = ""
    presence: Presence | None = None
    """None for a text."""


def stream_of(room: str) -> str:
    """Return the stream of a room. Raises `BadName`."""
    if "." in room:
        raise BadName(f"the room {room[:80]!r} has a dot: it is one token of a stream name")
    try:
        return check_stream_name(_PREFIX + room)
    except BadName:
        raise BadName(f"the room {room[:80]!r} is not 1 to 64 of A-Z a-z 0-9 _ -") from None


def check_author(author: str) -> str:
    """Return the name without outer spaces. Raises `BadName`."""
    name = author.strip()
    if not 0 < len(name) <= MAX_AUTHOR or not name.isprintable() or NOT_IN_NAMES.search(name):
        raise BadName(
            f"the name {author[:80]!r} is not 1 to {MAX_AUTHOR} printable characters without :<>[]"
        )
    return name


def write_chat(message: ChatMessage) -> bytes:
    """Return the payload. Raises ValueError for a text that XML or the bounds exclude."""
    if len(message.text) > MAX_TEXT:
        raise ValueError(f"the text has {len(message.text)} characters, at most {MAX_TEXT} may be")
    if message.presence is not None:
        content = f'<presence state="{message.presence.value}"/>'
    else:
        content = f"<text>{escape(message.text)}</text>"
    payload = f"<chat author={quoteattr(message.author)}>{content}</chat>"
    try:
        encoded = payload.encode()
        etree.fromstring(encoded, _make_parser())
    except (UnicodeEncodeError, etree.XMLSyntaxError):
        raise ValueError("the text has characters that XML excludes") from None
    return encoded


def read_chat(payload: bytes | None) -> ChatMessage | None:
    """Return the message of a payload; None if it is no chat."""
    if payload is None:
        return None
    try:
        root = etree.fromstring(payload, _make_parser())
    except etree.XMLSyntaxError:
        return None
    author = root.get("author")
    if root.tag != "chat" or author is None or len(root) != 1:
        return None
    name, content = cut(author, MAX_AUTHOR), root[0]
    if content.tag == "text":
        return ChatMessage(name, cut(content.text or "", MAX_TEXT))
    if content.tag != "presence":
        return None
    try:
        return ChatMessage(name, presence=Presence(content.get("state")))
    except ValueError:
        return None


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + _CUT


def _make_parser() -> etree.XMLParser:
    return etree.XMLParser(
        resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True
    )
