"""Pages about one origin from nodes of other clusters that can not prove them.

Such a node is the client's previous one, has a replica, or has an earlier version of the node
protocol. A node on the way to it can make such pages too. So they replace no event that another
node has. They only show that the client needs nothing of places that no other node has.
"""

from __future__ import annotations

import attrs
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.recovery.log_page_reader import LogPageRequest
from broker.recovery.page_exchange import PageExchange
from broker.recovery.page_merge import EventPages


@attrs.define
class UnprovenClaim:
    log = Logger()

    upto: Mark
    """Place up to which a node states that there are no other events than those that were read."""

    async def read_node(
        self, exchange: PageExchange, node: Address, request: LogPageRequest
    ) -> EventPages:
        """Yield the events that a node has of the request's one range. Errors are logged."""
        ((origin, (after, upto)),) = request.ranges.items()
        assert upto is not None
        try:
            while True:
                page = await exchange.fetch_page(node, request)
                reached = min(page.reached.get(origin, after), upto)
                self.upto = max(self.upto, reached)
                yield [each for each in page.events if each.origin == origin]
                if not page.next_serial or reached <= after or reached == upto:
                    return
                after = reached
                ranges = {origin: (after, upto)}
                request = attrs.evolve(request, ranges=ranges, serial=page.next_serial)
        except BrokerError as error:
            self.log.info("reading from {node} failed: {error}", node=str(node), error=error)
