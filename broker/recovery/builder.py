"""Builds what a node recovers from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

from twisted.internet.defer import succeed

from broker.cluster.address import Address, address_or_none
from broker.cluster.node_messenger import Correspondence
from broker.cluster.remote_origins import ForeignOrigins
from broker.cluster.network import Network
from broker.cluster.network_question import Questions
from broker.config import Settings
from broker.log.event_log import EventLog
from broker.matching.contract import IMatcher
from broker.matching.query.query import Query
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.archive_catch_up import StandingIn
from broker.recovery.branch_restore import Committed, Returning
from broker.recovery.context import Surroundings
from broker.recovery.durable_handover import HandingOver, Supersede
from broker.recovery.log_page_reader import LogPages
from broker.recovery.log_repair import Repairing
from broker.recovery.node_recovery import NodeRecovery
from broker.recovery.origin_reader import OriginSources
from broker.recovery.page_exchange import Fetching
from broker.recovery.page_matcher import PageMatching
from broker.recovery.remote_logs import OtherLogs
from broker.recovery.silent_origin import SilentOrigins
from broker.subscriptions.durables import Durables
from broker.transport.clock import IClock


def build_recovery(
    *,
    event_log: EventLog,
    matcher: IMatcher,
    durables: Durables,
    matching: PageMatching,
    parse_query: Callable[[str, Mapping[str, str]], Query],
    network: Network | None,
    supersede: Supersede,
    archive: ArchiveAccess | None,
    settings: Settings,
    clock: IClock,
    random: Random,
    committed: Committed,
    tell_losses: Callable[[], object],
) -> NodeRecovery:
    """A node's recovery, with what there is to recover from. `committed` is told own events that
    have become durable, `tell_losses` that some were lost."""
    pages = LogPages(event_log, matcher, matching, durables)
    post = fetching = handing = standing_in = questions = others = None
    if network is not None:
        members, gateways = settings.network.join, settings.network.gateways
        post = Correspondence(
            *(network, random.getrandbits(48)),
            has_seeds=bool(members or gateways),
            has_members=bool(members),
        )
        questions = Questions(post, clock)
        fetching = Fetching(post, pages, parse_query, clock)
        sources = partial(
            OriginSources, fetching=fetching, archive=archive, parse_query=parse_query
        )
        others = OtherLogs(ForeignOrigins(network), questions, sources)
        handing = HandingOver(
            *(post, durables, supersede, clock),
            archived=(lambda *_: succeed(None)) if archive is None else archive.durable,
        )

    def reachable(text: str) -> bool:
        address = address_or_none(text)
        return post is not None and address is not None and post.reachable(address)

    around = Surroundings(
        origin=event_log.origin,
        pages=pages,
        fetching=fetching,
        homes=lambda origin: [] if post is None else post.homes(origin),
        reachable=reachable,
        archive=archive,
        clock=clock,
        patience=settings.recovery.patience,
        others=others,
    )

    def nodes(origin: str) -> list[Address]:
        if network is None or post is None:
            return []
        keeper = network.keeping.owner.keeper
        near = [each.node.address for each in network.neighbours if each.up]
        keepers = [address for address in near if address.node == keeper]
        found = [*post.homes(origin), *keepers, *near, *post.members()]
        return [each for each in found if each != post.own and post.reachable(each)]

    repairing = Repairing(
        event_log, around, nodes, lambda: post is not None and post.is_cut_off, parse_query
    )
    event_log.repairs.find = repairing.find
    if network is not None and archive is not None:
        standing_in = StandingIn(ForeignOrigins(network), archive, around)
    returning = silent_origins = None
    if network is not None and fetching is not None and others is not None:
        returning = Returning(
            *(network, event_log, fetching, archive, clock),
            *(parse_query, committed, tell_losses),
        )
        silent_origins = SilentOrigins(ForeignOrigins(network), others, archive, around)
    return NodeRecovery(around, handing, standing_in, questions, returning, silent_origins)
