"""Verification of proofs that a node gives, with pinned keys."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from broker.errors import BadCertificate, ConfigurationError, ProtocolError
from broker.event.event_id import parse_identity
from broker.order_certificates.certificate import block_of
from broker.order_certificates.leaf import Leaf, digest_of
from broker.order_certificates.proof import (
    BlockPage,
    Outcome,
    SiteOutcome,
    read_block_page,
    read_event_proof,
    verify_event,
)
from broker.order_certificates.range_check import RangeCheck
from broker.order_certificates.signing_key import PinnedKey, PinnedKeys

#: In one command.
MOST_BLOCKS: Final = 1_000
MOST_LEAVES: Final = 65_536

PROVED, FALSE, UNKNOWN = 0, 1, 2


@attrs.frozen
class Verification:
    """Result for one event, or for one block of a range."""

    status: int
    """0 proved, 1 false or different, 2 unknown."""
    content: dict[str, Any]

    def lines(self) -> Iterator[str]:
        content = self.content
        for event in content["events"]:
            yield "{stamp} {tie}  {event}  message {message}".format_map(event)
        for site in content["sites"]:
            in_time = {True: ", in time"}.get(site["in_time"], "")
            missing = ", may have missing events" if site["has_missing"] else ""
            reason = f": {site['reason']}" if site["reason"] else ""
            yield f"  {site['site']}: {site['outcome']}{in_time}{missing}{reason}"
        if content["reason"]:
            yield f"  {content['reason']}"


def read_keys(path: Path) -> PinnedKeys:
    """Raises `ConfigurationError`."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    table = content.get("site_keys", content)
    if not isinstance(table, dict):
        raise ConfigurationError(f"{path}: site_keys is no table")
    keys = {}
    for site, found in table.items():
        try:
            keys[site] = [
                PinnedKey.parse(text) for text in (found if isinstance(found, list) else [found])
            ]
        except (TypeError, ValueError):
            raise ConfigurationError(f"{path}: {site} has no public key in base64") from None
    return keys


class OrderProofs:
    def __init__(
        self,
        ask: Callable[..., Awaitable[Any]],
        stack: str,
        keys: PinnedKeys,
        least: int,
    ) -> None:
        """`ask` sends a question to the node. `least` sites must prove an event."""
        self._ask = ask
        self._stack = stack
        self._keys = keys
        self._least = least

    async def verify_event(
        self, arguments: Mapping[str, str], document: bytes | None
    ) -> Verification:
        """Verify the event of an EventId or a stamp, with a copy of it if given."""
        stack, value = await self._ask_proof(arguments)
        if value is None:
            return _result(UNKNOWN, stack, [], [], "the node has no proof of this event")
        try:
            leaf, outcomes = verify_event(read_event_proof(value), stack, self._keys)
            _check_leaf(leaf, arguments, document)
        except (ProtocolError, BadCertificate) as error:
            return _result(FALSE, stack, [], [], error.text)
        return _result(self._status_of(outcomes), stack, [leaf], outcomes, "")

    async def verify_range(self, since: int, until: int) -> AsyncIterator[Verification]:
        """Verify all blocks with events of a range of stamps."""
        stamp = since
        check: RangeCheck | None = None
        for _ in range(MOST_BLOCKS):
            try:
                found = await self._read_block(stamp)
            except ProtocolError as error:
                yield _result(FALSE, self._stack, [], [], error.text)
                return
            if found is None:
                break
            page, leaves = found
            if page.block > block_of(until, page.width):
                break
            if check is None:
                check = RangeCheck(self._stack, self._keys, block_of(since, page.width))
            yield self._verify_block(check, page, leaves, range(since, until + 1))
            if page.following is None:
                break
            stamp = page.following * page.width
        else:
            reason = f"the range has more than {MOST_BLOCKS} blocks"
            yield _result(UNKNOWN, self._stack, [], [], reason)
        if check is None:
            yield _result(UNKNOWN, self._stack, [], [], "the node has no events of this range")

    def _verify_block(
        self, check: RangeCheck, page: BlockPage, leaves: Sequence[bytes], stamps: range
    ) -> Verification:
        try:
            block = check.add_block(page.block, leaves, page.certificates)
        except ProtocolError as error:
            return _result(FALSE, self._stack, [], [], error.text)
        widths = {each.certificate.width for each in block.outcomes}
        if widths - {page.width}:
            return _result(FALSE, self._stack, [], [], "the node has told another width of blocks")
        shown = [leaf for leaf in block.leaves if leaf.stamp in stamps]
        return _result(self._status_of(block.outcomes), self._stack, shown, block.outcomes, "")

    async def _read_block(self, stamp: int) -> tuple[BlockPage, list[bytes]] | None:
        """Return the first page of a block, and all leaves. Raises `ProtocolError`."""
        leaves: list[bytes] = []
        while True:
            first = str(len(leaves))
            self._stack, value = await self._ask_proof({"block": str(stamp), "first": first})
            if value is None:
                return None
            page = read_block_page(value)
            if page.width < 1 or (page.block + 1) * page.width <= stamp:
                raise ProtocolError(f"the node has sent block {page.block} for the stamp {stamp}")
            leaves += page.leaves
            if len(leaves) >= page.count or not page.leaves:
                return page, leaves
            if len(leaves) > MOST_LEAVES:
                raise ProtocolError(f"block {page.block} has more than {MOST_LEAVES} events")

    async def _ask_proof(self, arguments: Mapping[str, str]) -> tuple[str, object]:
        chosen = {"stack": self._stack} if self._stack else {}
        answer = await self._ask("order-proof", **chosen, **arguments)
        if not isinstance(answer, dict) or not isinstance(answer.get("stack"), str):
            raise ProtocolError("the node has sent no proof")
        if self._stack not in ("", answer["stack"]):
            raise ProtocolError(f"the node has sent a proof of {answer['stack']!r}")
        return answer["stack"], answer.get("proof")

    def _status_of(self, outcomes: Sequence[SiteOutcome]) -> int:
        found = [each.outcome for each in outcomes]
        if Outcome.FALSE in found:
            return FALSE
        if found.count(Outcome.PROVED) >= self._least:
            # A site that differs may not have signed the newest events yet.
            return PROVED
        return FALSE if Outcome.DIFFERENT in found else UNKNOWN


def _check_leaf(leaf: Leaf, arguments: Mapping[str, str], document: bytes | None) -> None:
    """Raises `BadCertificate` if the proof is of another event."""
    client_id, _, number, incarnation = leaf.event_id
    if "event" in arguments:
        if parse_identity(arguments["event"]) != (client_id, incarnation, number):
            raise BadCertificate(f"the node has sent a proof of {leaf.event_id}")
    elif leaf.stamp != int(arguments["stamp"]) or arguments["tie"] not in ("", leaf.tie):
        raise BadCertificate(f"the node has sent a proof of the stamp {leaf.stamp} {leaf.tie}")
    if document is not None and digest_of(document) != leaf.digest:
        raise BadCertificate(f"{leaf.event_id} has other bytes than this document")


def _result(
    status: int,
    stack: str,
    leaves: Sequence[Leaf],
    outcomes: Sequence[SiteOutcome],
    reason: str,
) -> Verification:
    events = [
        {
            "event": str(leaf.event_id),
            "stamp": leaf.stamp,
            "tie": leaf.tie,
            "message": f"{leaf.site}/{leaf.incarnation}/{leaf.number}",
            "digest": leaf.digest.hex(),
        }
        for leaf in leaves
    ]
    sites = [
        {
            "site": each.site,
            "outcome": each.outcome.value,
            "in_time": each.in_time,
            "block": each.certificate.block,
            "has_missing": each.certificate.has_missing,
            "reason": each.reason,
        }
        for each in outcomes
    ]
    result = ("proved", "false", "unknown")[status]
    content = {"result": result, "stack": stack, "events": events, "sites": sites, "reason": reason}
    return Verification(status, content)
