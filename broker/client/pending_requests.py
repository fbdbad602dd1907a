"""Requests to the node that are not answered yet. A new session sends them again."""

from __future__ import annotations

import msgspec

from broker.client.effects import RequestAnswered
from broker.client.outbox import too_large_error
from broker.errors import BadName, TooLarge
from broker.wire.messages import MAX_CONTROL, Ask, encode


class PendingRequests:
    def __init__(self) -> None:
        self._open: dict[int, Ask] = {}

    def add(self, ask: Ask) -> None:
        """Raises `TooLarge` or `BadName` for a request that no message can hold."""
        try:
            length = len(encode(msgspec.structs.replace(ask, document=b"")))
        except UnicodeEncodeError as error:
            raise BadName(f"the request is not valid text: {error.reason}") from None
        if length > MAX_CONTROL:
            raise TooLarge(f"the request has {length} bytes, at most {MAX_CONTROL} are allowed")
        self._open[ask.request] = ask

    def remove(self, request: int) -> None:
        self._open.pop(request, None)

    def refuse_larger(self, max_bytes: int) -> list[RequestAnswered]:
        refused = [ask for ask in self._open.values() if len(ask.document) > max_bytes]
        for ask in refused:
            del self._open[ask.request]
        return [
            RequestAnswered(ask.request, None, too_large_error(ask.document, max_bytes))
            for ask in refused
        ]

    def all_open(self) -> list[Ask]:
        return list(self._open.values())
