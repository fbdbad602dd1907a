"""Questions to the node that are not answered yet."""

from __future__ import annotations

import msgspec

from broker.client.effects import Answered
from broker.client.outbox import too_large
from broker.errors import BadName, TooLarge
from broker.wire.messages import MAX_CONTROL, Ask, encode


class Questions:
    """Open questions by their number: a new session asks them again."""

    def __init__(self) -> None:
        self._open: dict[int, Ask] = {}

    def add(self, ask: Ask) -> None:
        """Keep a question; raises `TooLarge` or `BadName` for one that no message can hold."""
        try:
            length = len(encode(msgspec.structs.replace(ask, document=b"")))
        except UnicodeEncodeError as error:
            raise BadName(f"the question can not be written: {error.reason}") from None
        if length > MAX_CONTROL:
            raise TooLarge(f"the question has {length} bytes, at most {MAX_CONTROL} can be asked")
        self._open[ask.request] = ask

    def remove(self, request: int) -> None:
        """The question is answered."""
        self._open.pop(request, None)

    def remove_larger(self, most: int) -> list[Answered]:
        """Answer the questions about events of more bytes than the node takes."""
        refused = [ask for ask in self._open.values() if len(ask.document) > most]
        for ask in refused:
            del self._open[ask.request]
        return [Answered(ask.request, None, too_large(ask.document, most)) for ask in refused]

    def all_open(self) -> list[Ask]:
        """The open questions, the oldest first."""
        return list(self._open.values())
