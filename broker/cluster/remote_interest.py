"""Interest of other nodes, as queries of this node's matcher."""

from __future__ import annotations

import zlib
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from broker.cluster.address import Address, unit_text
from broker.cluster.ingest_job import IngestJob
from broker.cluster.relayed_entry import claimed_header
from broker.cluster.traffic.sender import OutgoingEvent
from broker.event.flow import may_carry
from broker.matching.contract import Accepted, IMatcher
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import Query, parse_query
from broker.streams.link_key import LinkKey
from broker.streams.queue_policy import BLOCK, IQueuePolicy, merge_all

#: A node or unit of the network, or a link of another transport.
Destination: TypeAlias = Address | LinkKey
#: All, and the nodes and units among them.
_Targets: TypeAlias = tuple[frozenset[Destination], frozenset[Address]]
_MOST_CACHED = 10_000
#: Shares of query time (`query.max_share`) of one destination, and of all absent clients. Accounts
#: behind a destination are unknown here, so its queries are distributed over these.
SHARES_OF_DESTINATION: Final = 4
#: Seconds; an event that matched removed interest may wait for its DTD or for the disk.
REMOVED_KEPT = 60


@attrs.frozen
class _Installed:
    destination: Destination
    id: str
    interest: StreamInterest
    widened: bool = False


class RemoteInterest:
    """Interest of other nodes, as queries of this node's matcher."""

    def __init__(self, matcher: IMatcher) -> None:
        self._matcher = matcher
        self._installed: dict[int, _Installed] = {}
        self._numbers: dict[tuple[Destination, str], int] = {}
        self._counts: Counter[Destination] = Counter()
        self._targets: dict[tuple[int, ...], _Targets] = {}
        """By matches."""
        self._removed: deque[list[int]] = deque([[] for _ in range(REMOVED_KEPT)], REMOVED_KEPT)
        """By second of the removal."""
        self._absent: dict[Hashable, tuple[int, StreamInterest]] = {}
        self._queue_policies: dict[Address, Mapping[str, IQueuePolicy]] = {}
        self.widened = 0
        """Slow queries, replaced by all events of their streams."""

    def __len__(self) -> int:
        return len(self._numbers)

    def count_by_destination(self) -> Mapping[Address, int]:
        return {
            each: count
            for each, count in self._counts.items()
            if count and isinstance(each, Address)
        }

    def queries(self) -> Iterator[tuple[str, Query]]:
        """Yield each query with the address of its destination."""
        for (destination, _), number in list(self._numbers.items()):
            if isinstance(destination, Address) and not destination.node:
                address = unit_text(destination.unit)
            else:
                address = str(destination)
            yield address, self._installed[number].interest.query

    def install(self, destination: Destination, id: str, interest: StreamInterest) -> bool:
        """Return True if the destination had no interest before."""
        first = not self._counts[destination]
        self.remove(destination, id)
        self._subscribe(_Installed(destination, id, interest))
        return first

    def remove(self, destination: Destination, id: str) -> None:
        number = self._numbers.pop((destination, id), None)
        if number is not None:
            self._removed[-1].append(number)
            self._counts[destination] -= 1
            self._matcher.unsubscribe(number)

    def expire_removed(self) -> None:
        """Drop interest removed long ago. Call each second.

        Events are matched before they are committed. An event that matched a removed query still
        goes to its destination.
        """
        if self._removed[0]:
            for number in self._removed[0]:
                del self._installed[number]
            self._targets.clear()
        self._removed.append([])

    def set_queue_policies(
        self, destination: Address, policies: Mapping[str, IQueuePolicy]
    ) -> None:
        """Set all policies of a destination's interest, by its id; others are `block`."""
        if policies:
            self._queue_policies[destination] = policies
        else:
            self._queue_policies.pop(destination, None)

    def queue_policy(self, destination: Address, flow: str) -> IQueuePolicy:
        """Return the policy for a flow's events that wait for a destination.

        It is that of all its interest in streams of the flow, or `block`.
        """
        policies = self._queue_policies.get(destination)
        if not policies:
            return BLOCK
        return merge_all(
            BLOCK if each.widened else policies.get(each.id, BLOCK)
            for each in self._present()
            if each.destination == destination and may_carry(flow, each.interest.pattern)
        )

    def matches_of(self, destination: Address, matches: tuple[int, ...]) -> tuple[int, ...]:
        """Return the queries of a destination among those that an event matches."""
        installed = self._installed
        return tuple(
            [n for n in matches if n in installed and installed[n].destination == destination]
        )

    def clear(self) -> None:
        self._queue_policies.clear()
        for destination, id in list(self._numbers):
            self.remove(destination, id)

    def install_for_absent(self, key: Hashable, interest: StreamInterest) -> None:
        """Match for an absent local client: an event that enters the unit may be for it alone."""
        self.remove_for_absent(key)
        number = self._matcher.subscribe(
            interest.pattern, interest.query, share_of_destination("absent", key)
        )
        self._absent[key] = number, interest

    def remove_for_absent(self, key: Hashable) -> None:
        known = self._absent.pop(key, None)
        if known is not None:
            self._matcher.unsubscribe(known[0])

    def widen_suspended(self, number: int) -> bool:
        """Replace a suspended query by all events of its streams: a destination must never miss
        any.

        Return False if the number is not one of these.
        """
        installed = self._installed.get(number)
        if installed is None:
            return self._widen_absent(number)
        if self._numbers.get((installed.destination, installed.id)) != number:
            return True
        self.widened += 1
        destination, id, interest = installed.destination, installed.id, installed.interest
        self.remove(destination, id)
        everything = StreamInterest(interest.pattern, parse_query("true()"))
        self._subscribe(_Installed(destination, id, everything, widened=True))
        return True

    def _widen_absent(self, number: int) -> bool:
        for key, (known, interest) in self._absent.items():
            if known == number:
                self.widened += 1
                self.install_for_absent(
                    key, StreamInterest(interest.pattern, parse_query("true()"))
                )
                return True
        return False

    def destinations(self, matches: tuple[int, ...]) -> frozenset[Address]:
        """Return the nodes and units with interest in an event."""
        return (self._targets.get(matches) or self._find_targets(matches))[1]

    def targets(self, matches: tuple[int, ...]) -> frozenset[Destination]:
        """Return the nodes, units and links of other transports with interest in an event."""
        return (self._targets.get(matches) or self._find_targets(matches))[0]

    def links_for(self, stream: str) -> frozenset[LinkKey]:
        """Return the links of other transports with interest in events of a stream.

        Without a name: in any stream.
        """
        return frozenset(
            installed.destination
            for installed in self._present()
            if isinstance(installed.destination, LinkKey)
            and (not stream or installed.interest.pattern.matches(stream))
        )

    def has_local_match(self, matches: tuple[int, ...]) -> bool:
        """Also for an absent client."""
        return any(number not in self._installed for number in matches)

    def has_match_at(self, matches: tuple[int, ...], instance: str) -> bool:
        """Return whether a local client, or a link of a transport instance, wants an event."""
        return self.has_local_match(matches) or any(
            isinstance(each, LinkKey) and each.instance == instance
            for each in self.targets(matches)
        )

    def events_with_destinations(self, job: IngestJob, own: Address) -> list[OutgoingEvent]:
        """Return the events of a range that enters a unit.

        An undecided event, or the placeholder of a refused one, goes to every destination with
        interest in its stream.
        """
        outgoing = []
        for index, (each, verdict) in enumerate(zip(job.events, job.verdicts, strict=True)):
            if isinstance(verdict, Accepted) and index not in job.undecided:
                matches = verdict.subscriptions
                targets = self.destinations(matches)
                # This node forwards to links of its transports by itself.
                if self.has_local_match(matches) or self.targets(matches) != targets:
                    targets |= {own}
                level = verdict.header.security_level.rank
            else:
                targets = self.possible_destinations(claimed_header(each).stream) | {own}
                level = each.level
                each = each._replace(document=job.placeholders.get(index, each.document))
            outgoing.append(OutgoingEvent(each, level, targets))
        return outgoing

    def possible_destinations(self, stream: str) -> frozenset[Address]:
        """Without a name, in any stream."""
        return frozenset(
            installed.destination
            for installed in self._present()
            if isinstance(installed.destination, Address)
            and (not stream or installed.interest.pattern.matches(stream))
        )

    def _present(self) -> Iterator[_Installed]:
        """Yield the interest that is not removed."""
        for number, installed in self._installed.items():
            if self._numbers.get((installed.destination, installed.id)) == number:
                yield installed

    def _find_targets(self, matches: tuple[int, ...]) -> _Targets:
        if len(self._targets) >= _MOST_CACHED:
            self._targets.clear()
        found = {self._installed[n].destination for n in matches if n in self._installed}
        addresses = frozenset(each for each in found if isinstance(each, Address))
        targets = self._targets[matches] = frozenset(found), addresses
        return targets

    def _subscribe(self, installed: _Installed) -> None:
        interest = installed.interest
        share = share_of_destination(str(installed.destination), installed.id)
        number = self._matcher.subscribe(interest.pattern, interest.query, share)
        self._installed[number] = installed
        self._numbers[installed.destination, installed.id] = number
        self._counts[installed.destination] += 1
        self._targets.clear()


def share_of_destination(destination: str, key: object) -> str:
    """Return the holder of the time of one of a destination's queries, by its key."""
    return f"{destination} {zlib.crc32(repr(key).encode()) % SHARES_OF_DESTINATION}"
