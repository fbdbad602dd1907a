"""One datagram socket with several users, told apart by the first bytes of their datagrams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final

from broker.errors import ConfigurationError
from broker.transport.clock import IClock
from broker.transport.socket.contract import IDatagramChannel
from broker.transport.socket.datagram_port import DatagramPort, DatagramPortSettings
from broker.transport.socket.datagram_transport import (
    Address,
    DatagramTransport,
    OnDatagrams,
)

TAG_BYTES: Final = 4
#: Datagrams of the untagged user begin with a lower byte.
_FIRST_TAG_BYTE: Final = 0x80


def derive_tag(name: str) -> bytes:
    """Return the tag of a stack's name; both ends of a link use the same name."""
    digest = blake2b(name.encode(), digest_size=TAG_BYTES, person=b"xmlbroker-port").digest()
    return bytes([digest[0] | _FIRST_TAG_BYTE]) + digest[1:]


class DatagramDemultiplexer:
    """One datagram socket with several users, told apart by the first bytes of their datagrams.

    The datagrams of a named stack begin with its tag. One untagged user gets all that begin with a
    byte below 128: the connections or the group of `broker.transport.arq`.
    """

    def __init__(
        self,
        clock: IClock,
        transport: DatagramTransport,
        *,
        describe: Callable[[Address], str] = str,
        to_group: Callable[[Sequence[bytes]], None] | None = None,
        is_own: Callable[[Address], bool] = lambda _: False,
    ) -> None:
        #: Datagrams without a user.
        self.unknown = 0
        self._users: dict[bytes, OnDatagrams] = {}
        self._only_user: OnDatagrams | None = None
        self._ports: dict[bytes, DatagramPort] = {}
        self._open = partial(
            DatagramPort,
            *(clock, transport),
            describe=describe,
            to_group=to_group,
            is_own=is_own,
        )

    def open_port(
        self,
        name: str,
        on_stranger: Callable[[IDatagramChannel, Address], None] | None = None,
        settings: DatagramPortSettings = DatagramPortSettings(),  # noqa: B008  # frozen
    ) -> DatagramPort:
        """Return the port of the stack `name`. Raises `ConfigurationError` if its tag is in use."""
        tag = derive_tag(name)
        if tag in self._users:
            raise ConfigurationError(f"the name {name!r} has the tag of another stack on this port")
        port = self._open(tag, on_stranger, settings, on_stop=partial(self._remove_user, tag))
        self._ports[tag] = port
        self._add_user(tag, port.datagrams_received)
        return port

    def set_untagged_user(self, on_datagrams: OnDatagrams) -> None:
        self._add_user(b"", on_datagrams)

    def stop(self) -> None:
        """Stop the ports of the named stacks."""
        for port in list(self._ports.values()):
            port.stop()

    def datagrams_received(self, batch: Sequence[tuple[bytes, Address]]) -> None:
        if self._only_user is not None:
            self._only_user(batch)
            return
        batches: dict[bytes, list[tuple[bytes, Address]]] = {}
        for each in batch:
            head = each[0][:TAG_BYTES]
            tag = head if head and head[0] >= _FIRST_TAG_BYTE else b""
            batches.setdefault(tag, []).append(each)
        for tag, part in batches.items():
            user = self._users.get(tag)
            if user is None:
                self.unknown += len(part)
            else:
                user(part)

    def _add_user(self, tag: bytes, on_datagrams: OnDatagrams) -> None:
        self._users[tag] = on_datagrams
        self._choose_path()

    def _remove_user(self, tag: bytes) -> None:
        del self._users[tag], self._ports[tag]
        self._choose_path()

    def _choose_path(self) -> None:
        # A lone untagged user costs nothing for each datagram.
        is_alone = self._users.keys() == {b""}
        self._only_user = self._users[b""] if is_alone else None
