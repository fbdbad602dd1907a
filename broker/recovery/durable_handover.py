"""Handover of durable subscriptions (`docs/protocols/recovery.md`, P11, G11)."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from broker.cluster.address import Address, address_or_none
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.node_requests import NodeRequests
from broker.cluster.traffic.frame import MAX_HOPS
from broker.delivery.recovery_contract import HandoverRequest, HandoverResult
from broker.errors import NotConnected, NotOwner, from_wire
from broker.event.place import Position
from broker.recovery.archive_access import ArchivedDurable
from broker.recovery.durable_search import DurableSearch
from broker.recovery.handover_responder import HandoverResponder, SupersedeSession
from broker.recovery.messages import HandedOver, Release, Released, TakeOver
from broker.subscriptions.client_owner import OWNER_NAME, ClientOwner
from broker.subscriptions.durable_subscriptions import DurableSubscription, DurableSubscriptions
from broker.transport.clock import IClock
from broker.transport.sleep import sleep
from broker.wire.claim import ClaimedState, SignedState

#: Seconds.
TIMEOUT = 3.0
GIVE_UP_AFTER = 60.0
RETRY_AFTER = 1.0
#: Seconds until an old position is accepted.
ACCEPT_OLD_AFTER = 5.0
MAY_REPEAT = "Events may come again"
MAX_MOVES = 8
Holders: TypeAlias = dict[Address, HandoverResult]


class DurableHandover:
    log = Logger()

    def __init__(
        self,
        messenger: NodeMessenger,
        durables: DurableSubscriptions,
        supersede: SupersedeSession,
        clock: IClock,
        find_archived: Callable[[str, str], Deferred[ArchivedDurable | None]],
        *,
        must_prove: bool = False,
    ) -> None:
        """With `must_prove`, a client with a key gets no position of a node that the key does not
        prove."""
        self._messenger = messenger
        self._durables = durables
        self._must_prove = must_prove
        self.responder = HandoverResponder(messenger, durables, supersede, clock)
        self._find_archived = find_archived
        self._search = DurableSearch(messenger, durables, clock)
        self._clock = clock
        self._requests = NodeRequests(messenger, clock, HandedOver)
        self.taken_over = 0
        self.unproven = 0
        """Ignored positions of other nodes."""
        messenger.add_listener(Released, self._receive_released)

    def track_silent_nodes(self) -> None:
        self._search.track_silent_nodes()

    # ------------------------------------------------------------------ taking over

    async def take_over_durable(self, claim: HandoverRequest) -> HandoverResult | None:
        """Get a subscription from the client's previous node.

        Returns None if no node has it, or the client has left. No node is asked while the client is
        disconnected: it may be at the previous node, where its session would end.

        A client without a position waits for silent nodes. Raises `IncarnationRefused` for a later
        process elsewhere, `NotOwner` for the subscription of another client, and `NotConnected` if
        the named node is unreachable.
        """
        address = address_or_none(claim.previous_address)
        tried = self._clock.seconds()
        holders: Holders = {}
        while claim.is_open():
            if not claim.is_connected():
                await sleep(self._clock, RETRY_AFTER)
                continue
            ignored = ""
            follows = address is not None and address != self._messenger.own_address
            # A node that returns during the search has not been asked.
            expected, silent_count = (False, 0) if follows else self._search.count_silent()
            uncertainty = "nodes that just became unreachable may have it" if expected else ""
            try:
                if address is not None and follows:
                    return await self._follow_moves(claim, address)
                found, unanswered = await self._search_network(claim)
                # A node that is silent now has not got further.
                holders |= found
                ignored = self._drop_unproven(claim, holders)
                if unanswered:
                    uncertainty = (
                        f"{', '.join(unanswered)} may have {claim.name!r} and did not answer"
                    )
            except NotConnected as error:
                uncertainty = str(error)
            if not uncertainty or (holders and claim.has_position):
                if holders:
                    return self._furthest_position(claim, holders)
                archived = await self._find_in_archive(claim)
                return archived or self._as_new(claim, silent_count, ignored)
            if claim.has_position:
                self.log.info(
                    "{uncertainty}: the client's own position is used", uncertainty=uncertainty
                )
                return None
            waited = self._clock.seconds() - tried
            if waited >= ACCEPT_OLD_AFTER:
                result = await self._find_old_position(claim, holders, uncertainty)
                if result is not None:
                    return result
            if waited >= GIVE_UP_AFTER:
                if address is not None:
                    raise NotConnected(uncertainty)
                return self._as_new(claim, silent_count, uncertainty)
            await sleep(self._clock, RETRY_AFTER)
        return None

    def _as_new(
        self, claim: HandoverRequest, silent_count: int, reason: str = ""
    ) -> HandoverResult | None:
        """Start a new subscription, with a warning about nodes that may have it."""
        if claim.is_stored_here:
            return None
        if not reason and silent_count and not claim.has_position:
            members = ", ".join(map(str, self._messenger.list_absent_members()))
            nodes = members or f"the nodes of {silent_count} other origins"
            reason = f"{nodes} can not be reached, and may have its position"
        if not reason:
            return None
        self.log.warn(
            "{reason}: {name} starts as a new subscription", reason=reason, name=claim.name
        )
        return HandoverResult(
            None, warning=f"{claim.name!r} starts as a new subscription: {reason}"
        )

    async def _find_old_position(
        self, claim: HandoverRequest, holders: Holders, uncertainty: str
    ) -> HandoverResult | None:
        archived = await self._find_in_archive(claim)
        if archived is not None and archived.address:
            # The archive names the last node, which has answered.
            return self._furthest_position(
                claim, {**holders, Address.parse(archived.address): archived}
            )
        if holders:
            known = self._furthest_position(claim, holders, archived)
            where = f"at the position of {known.address or 'the archive'}"
        elif archived is not None:
            known, where = archived, "at the archive's position"
        elif claim.is_stored_here:
            known, where = HandoverResult(None), "at this node's old position"
        else:
            return None
        text = f"{claim.name!r} continues {where}: {uncertainty}. {MAY_REPEAT}"
        self.log.warn("{text}", text=text)
        return attrs.evolve(known, warning=text)

    async def _find_in_archive(self, claim: HandoverRequest) -> HandoverResult | None:
        found = await self._find_archived(claim.client_id, claim.name)
        if found is None:
            return None
        owner = await self._find_archived(claim.client_id, OWNER_NAME)
        signed = None
        if owner is not None:
            stored_owner = ClientOwner.decode(owner.stored)
            stored_owner.check_other_node(claim.client_id, claim.account, claim.proof)
            signed = stored_owner.signed
        is_proven = signed is not None and _has_signed(claim, signed, signed.state.node)
        durable = DurableSubscription.decode(found.stored)
        moved = address_or_none(durable.moved_to)
        for address in [moved] if moved else self._messenger.find_sources(found.origin):
            if address == self._messenger.own_address:
                continue
            try:
                result = await self._follow_moves(claim, address)
            except NotConnected:
                continue
            if result is not None and not self._is_ignored(claim, result):
                return result
        archived = HandoverResult(durable.position, is_proven=is_proven)
        return None if self._is_ignored(claim, archived) else archived

    async def _follow_moves(
        self, claim: HandoverRequest, address: Address
    ) -> HandoverResult | None:
        furthest: HandoverResult | None = None
        asked: set[Address] = set()
        while address not in asked and len(asked) < MAX_MOVES:
            asked.add(address)
            answer = await self._request_handover(claim, address)
            if answer is None:
                raise NotConnected(f"{address}, where {claim.name!r} was, can not be reached")
            if answer.position is None:
                return furthest
            position = Position.from_wire(answer.position)
            found = HandoverResult(position, str(address), is_proven=_is_proven(claim, answer))
            if furthest is None or found.is_proven > furthest.is_proven:
                furthest = found
            elif found.is_proven == furthest.is_proven and furthest.position is not None:
                furthest = attrs.evolve(found, position=furthest.position.merged(position))
            if not answer.moved_to or answer.moved_to == str(self._messenger.own_address):
                break
            address = Address.parse(answer.moved_to)
        self.taken_over += furthest is not None
        return furthest

    async def _search_network(self, claim: HandoverRequest) -> tuple[Holders, list[str]]:
        """Return the positions at nodes of all clusters, and the silent nodes.

        The first position found may be old.
        """
        if not self._search.knows_cluster:
            raise NotConnected("this node has just started and does not know the other nodes yet")
        if self._messenger.is_cut_off:
            raise NotConnected("this node has no link to other nodes, which may have it")
        members = self._messenger.list_members()
        asked = [self._request_handover(claim, address) for address in members]
        unanswered: list[str] = []
        holders: Holders = {}
        refusal: NotOwner | None = None
        for address, answered in zip(members, asked, strict=True):
            try:
                answer = await answered
            except NotOwner as error:
                refusal = error
                continue
            if answer is None:
                unanswered.append(str(address))
            elif answer.position is not None and not answer.moved_to:
                position = Position.from_wire(answer.position)
                holders[answer.source] = HandoverResult(
                    position, str(answer.source), is_proven=_is_proven(claim, answer)
                )
        self.taken_over += bool(holders)
        further, whole = await self._search.find_holders(claim.client_id, claim.name)
        if not whole:
            unanswered.append("nodes of other clusters")
        for address in further:
            if address == self._messenger.own_address:
                # The client moved from there to this node.
                continue
            try:
                result = await self._follow_moves(claim, address)
            except NotConnected:
                unanswered.append(str(address))
                continue
            except NotOwner as error:
                refusal = error
                continue
            if result is not None and result.position is not None:
                holders[Address.parse(result.address)] = result
        if refusal is not None and not holders:
            # A stranger with the same names has it there.
            raise refusal
        return holders, unanswered

    def _furthest_position(
        self, claim: HandoverRequest, holders: Holders, archived: HandoverResult | None = None
    ) -> HandoverResult:
        """Return the furthest position, and release the other nodes.

        If the client's key proves one of them, the others do not count: any member could state one.
        """
        found = [*holders.values(), *([archived] if archived else [])]
        trusted = [each for each in found if each.is_proven] or found
        positions = {each.address: each.position or Position() for each in trusted}
        furthest = reduce(Position.merged, positions.values())
        reached = {
            address: sum(furthest.marks[origin] == mark for origin, mark in position.marks.items())
            for address, position in positions.items()
            if address
        }
        newest_holder = max(reached, key=lambda address: reached[address], default="")
        for address in map(str, holders):
            if address != newest_holder:
                self._send_release(address, claim.client_id, claim.name, self._signed(claim))
        return HandoverResult(furthest, newest_holder)

    def _request_handover(
        self, claim: HandoverRequest, address: Address
    ) -> Deferred[HandedOver | None]:
        fields = self._requests.first_fields(address)
        if fields is None:
            return succeed(None)
        process = (claim.client_id, claim.name, claim.incarnation, claim.token)
        message = TakeOver(*fields, *process, claim.account, claim.proof)
        return self._requests.send(message, TIMEOUT).addCallback(_raise_error)

    def _drop_unproven(self, claim: HandoverRequest, holders: Holders) -> str:
        """Return a reason for the user if there were any that do not count."""
        dropped = [each for each in holders if self._is_ignored(claim, holders[each])]
        for each in dropped:
            del holders[each]
        self.unproven += len(dropped)
        nodes = ", ".join(map(str, dropped))
        return f"{nodes} can not prove that this client was there" if dropped else ""

    def _is_ignored(self, claim: HandoverRequest, result: HandoverResult) -> bool:
        return self._must_prove and claim.proof is not None and not result.is_proven

    def release_durable(self, address: str, client_id: str, name: str) -> None:
        """Request a node to delete a subscription that this node has now."""
        signed = self._durables.owner_of(client_id).signed
        self._send_release(address, client_id, name, signed)

    def _signed(self, claim: HandoverRequest) -> SignedState | None:
        process = (claim.client_id, claim.incarnation, claim.token)
        state = ClaimedState(*process, claim.name, str(self._messenger.own_address))
        return None if claim.proof is None else SignedState(state, claim.proof)

    def _send_release(
        self, address: str, client_id: str, name: str, signed: SignedState | None
    ) -> None:
        own, target = self._messenger.own_address, address_or_none(address)
        if own is not None and target is not None:
            self._messenger.send(Release(target, own, MAX_HOPS, client_id, name, signed))

    def _receive_released(self, message: Released) -> None:
        self._durables.clear_previous_address(message.client_id, message.name, str(message.source))


def _raise_error(answer: HandedOver | None) -> HandedOver | None:
    if answer is not None and answer.error[0]:
        raise from_wire(answer.error)
    return answer


def _is_proven(claim: HandoverRequest, answer: HandedOver) -> bool:
    return _has_signed(claim, answer.signed, str(answer.source))


def _has_signed(claim: HandoverRequest, signed: SignedState | None, node: str) -> bool:
    proof = claim.proof
    return bool(proof and signed and signed.proves(claim.client_id, node, proof.key))
