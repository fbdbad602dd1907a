"""Construction of a node from its parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.cluster.dtd_exchange import DtdExchange
from broker.cluster.membership import Dialler
from broker.cluster.network import Network
from broker.cluster.network_factory import build_network
from broker.cluster.stream_time import StreamTimes
from broker.config import Settings
from broker.config.stacks import FindPlugins, find_plugins_of
from broker.delivery.commit_share import QueueLimits
from broker.delivery.feed import Feed
from broker.delivery.output import Output
from broker.delivery.selection import Selection
from broker.delivery.session_delivery import SessionDelivery
from broker.dtd.interfaces import IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, LogUnavailable, QueryTooExpensive
from broker.identity import Accounts, Identity, authenticator_for, revise_identity
from broker.ingest.acknowledgement_policy import LOCAL_ACKNOWLEDGEMENT
from broker.ingest.input import Input
from broker.ingest.quarantine import Quarantine
from broker.ingest.rated_input import RatedInput
from broker.ingest.validation_policy import ValidationPolicy
from broker.limit_registry import LimitRegistry
from broker.log.log_file import LogFile
from broker.matching.query.query import parse_query
from broker.matching.schema.query_advisor import QueryAdvisor
from broker.node.answers import build_explanation_answers, build_shared_answers
from broker.node.audit import AUDITED_QUESTIONS, build_audit_log
from broker.node.event_types import EventTypes
from broker.node.log_opening import open_event_log
from broker.node.matcher import make_matcher, query_limits
from broker.node.reload import Reload
from broker.node.stream_services import build_interest, build_transports
from broker.node.threads import Threads
from broker.queue_memory import HeldBytes, QueueMemory
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.archive_dtd_source import ArchiveDtdSource
from broker.recovery.builder import build_recovery
from broker.recovery.page_matcher import PageMatcher
from broker.sessions.acceptor import SessionAcceptor, SessionLimits
from broker.sessions.session import Session, SessionServices
from broker.streams.link_sockets import LinkSockets, open_on_reactor
from broker.streams.transports import transports_by_pattern
from broker.subscriptions.durable_subscriptions import DurableSubscriptions
from broker.subscriptions.subscription_limits import SubscriptionLimits
from broker.subscriptions.subscription_requests import SubscriptionRequests
from broker.subscriptions.type_change_notices import TypeChangeNotices
from broker.transport.clock import wall_clock_ms
from broker.transport.driver import StackDriver
from broker.transport.socket import ISocketChannel
from broker.wire.stack import ENVELOPE_BYTES, session_layers

#: In seconds.
TICK_INTERVAL, MAINTENANCE_INTERVAL = 1.0, 3600.0


class Node:
    """A node without listeners; `accept_connection` takes socket channels."""

    log = Logger()

    def __init__(
        self,
        settings: Settings,
        reactor: Any,
        threads: Threads,
        *,
        wall_clock: Callable[[], int] = wall_clock_ms,
        open_file: Callable[..., LogFile] = LogFile,
        dialler: Dialler | None = None,
        random: Random | None = None,
        archive: ArchiveAccess | None = None,
        link_sockets: LinkSockets | None = None,
        find_plugins: FindPlugins = find_plugins_of,
    ) -> None:
        """Opens the event log. Raises `LogUnavailable`, `LogCorrupt`, and `ConfigurationError` for
        options of a stack that do not fit.

        A simulation passes a `Clock` as `reactor`, its own threads, time, log file with faults,
        dialler, sockets of links, and random source.
        """
        random = random or Random()
        self.settings = settings
        self.reload: Reload | None = None
        self.list_inputs: Callable[[], Sequence[Mapping[str, Any]]] = tuple
        self.accounts = Accounts(settings.accounts)
        limit_registry = self.limit_registry = LimitRegistry()
        self.audit = build_audit_log(settings.audit, threads, reactor, wall_clock, limit_registry)
        self.started_ms, self._wall_clock = wall_clock(), wall_clock
        self._reactor, self._threads = reactor, threads
        self._neighbour_dtds = DtdExchange(reactor)
        sources: list[IDtdSource] = [self._neighbour_dtds]
        if archive is not None:
            sources.append(ArchiveDtdSource(archive))
        self.types = EventTypes(
            *(settings, reactor, sources, threads.write, wall_clock),
            on_new_version=lambda reference: self.notices.add_version(reference),
            limit_registry=self.limit_registry,
        )
        self.dtds, self._known_types = self.types.dtds, self.types.known_types
        self.output = Output()
        self.queue_memory = QueueMemory(settings.queue.total_bytes, self.limit_registry)
        self.event_log = open_event_log(
            settings,
            *(reactor, threads, wall_clock, open_file, find_plugins),
            archived=archive is not None,
            on_rollback=self.output.roll_back,
        )
        self.matcher = make_matcher(settings, self.dtds, self.limit_registry)
        self.quarantine = Quarantine(
            settings.node.data / "quarantine",
            max_files=settings.limits.quarantine_files,
            max_bytes=settings.limits.quarantine_bytes,
            limit_registry=self.limit_registry,
            write=threads.write_file,
            wall_clock=wall_clock,
        )
        self.durables = DurableSubscriptions.from_settings(settings, self.event_log, wall_clock)
        self.network = self._make_network(dialler, random, find_plugins)
        self.transports = build_transports(
            *(self, reactor, random, wall_clock),
            *(link_sockets or open_on_reactor(reactor, settings), find_plugins),
        )
        policy = ValidationPolicy(settings)
        self._selection = Selection(self.matcher, self.dtds, reactor, policy)
        self._late_validator = self.types.build_late_validator(self.matcher)
        self.recovery = build_recovery(
            *(reactor, self.queue_memory),
            event_log=self.event_log,
            matcher=self.matcher,
            durables=self.durables,
            page_matcher=PageMatcher(self._select_events, self._late_validator, reactor),
            parse_query=self.parse_query,
            network=self.network,
            supersede=lambda *client: self.acceptor.supersede_client(*client),
            archive=archive,
            settings=settings,
            on_committed=self._deliver_own,
            report_losses=self.output.report_losses,
        )
        self.input = Input(
            matcher=self.matcher,
            dtds=self.dtds,
            log=self.event_log,
            quarantine=self.quarantine,
            on_committed=self._deliver_own,
            wall_clock=wall_clock,
            policy=policy,
            on_new_type=lambda *named: self.types.announce(DtdReference(*named)),
            unsaved_dtds=self.types.dtd_store,
            annotate=None
            if self.transports is None
            else self.transports.make_annotator(lambda: self.event_log.own_end),
            carriage=self.transports,
            acknowledgement_policy=LOCAL_ACKNOWLEDGEMENT
            if self.network is None
            else self.network.replicas.replicator,
        )
        self.rated_input = RatedInput(self.input, settings.limits, reactor, self.limit_registry)
        self._advisor = QueryAdvisor(
            self._known_types, undescribed=not policy.is_strict, complete=self.types.has_all_types
        )
        self.subscription_requests = SubscriptionRequests(
            matcher=self.matcher,
            parse_query=self.parse_query,
            advise=self._advisor.find_warnings,
            log=self.event_log,
            output=self.output,
            durables=self.durables,
            interest=build_interest(self),
            recovery=self.recovery,
            on_resumed=lambda *resumed: self.notices.check_missed_versions(*resumed),
            limits=SubscriptionLimits(settings.limits, self.durables, self.output, limit_registry),
            check_pattern=self.transports.check_pattern if self.transports else lambda _: None,
        )
        questions = self.recovery.questions
        post = None if questions is None else questions.messenger
        self.stream_times = StreamTimes(
            *(self.event_log, reactor, wall_clock, post), self.output.send_progress
        )
        self.acceptor: SessionAcceptor = self._make_acceptor()
        self.explanation_answers = build_explanation_answers(
            self, self.parse_query, self._advisor.find_warnings, reactor
        )
        versions = self.types.new_versions
        self.notices: TypeChangeNotices = TypeChangeNotices(
            self._known_types, versions, lambda: self.acceptor.sessions, reactor
        )

    # ------------------------------------------------------------------ building

    def _make_network(
        self, dialler: Dialler | None, random: Random, find_plugins: FindPlugins
    ) -> Network | None:
        if self.settings.network.is_standalone:
            return None
        return build_network(
            self.settings,
            event_log=self.event_log,
            matcher=self.matcher,
            dtds=self.dtds,
            neighbour_dtds=self._neighbour_dtds,
            types=self.types.join_network(self.event_log.origin),
            pending_dtds=self.types.pending_dtds,
            unvalidated_events=self.types.unvalidated_events,
            reread_from_log=self.output.reread_from_log,
            quarantine=self.quarantine,
            on_committed=self._deliver_relayed,
            report_gap=self.output.recover_or_report,
            report_dropped=self.output.report_dropped,
            has_lagging_subscription=self.output.has_lagging_subscription,
            reactor=self._reactor,
            wall_clock=self._wall_clock,
            dialler=dialler,
            random=random,
            stacks=transports_by_pattern(self.settings, find_plugins),
            audit=self.audit,
            limit_registry=self.limit_registry,
            queue_memory=self.queue_memory,
        )

    def _make_acceptor(self) -> SessionAcceptor:
        settings, limits = self.settings, self.settings.limits
        services = SessionServices(
            input=self.rated_input,
            subscriptions=self.subscription_requests,
            answers=build_shared_answers(self, self.parse_query, self._reactor),
            on_ended=lambda session: self.acceptor.remove_session(session),
            clock=self._reactor,
            audit=self.audit,
            audited_questions=AUDITED_QUESTIONS,
            find_address=self._find_address,
        )

        def make_session(identity: Identity, incarnation: int, token: bytes) -> Session:
            own = int.from_bytes(os.urandom(7), "big") + 1
            held = HeldBytes(self.queue_memory)
            layers = session_layers(own, limits.window_bytes, held=held)
            driver = StackDriver(layers, self._reactor)
            link = driver.join(identity.client_id)
            session = Session(
                identity, incarnation, token, link, services, self._make_delivery, held
            )
            driver.receiver = session
            self.output.add_session(session.delivery)
            return session

        return SessionAcceptor(
            node_name=settings.node.name,
            address=self._find_address,
            authenticator=authenticator_for(self.accounts, settings, self._threads.run_in_pool),
            revise=lambda identity: revise_identity(self.accounts, identity),
            event_log=self.event_log,
            clock=self._reactor,
            wall_clock=self._wall_clock,
            limits=SessionLimits.from_settings(limits, ENVELOPE_BYTES),
            limit_registry=self.limit_registry,
            audit=self.audit,
            make_session=make_session,
            check_owner=self.durables.check_account,
            count_durables=self.durables.count_of_client,
        )

    def _find_address(self) -> str:
        state = None if self.network is None else self.network.state
        return self.settings.node.name if state is None else str(state.address)

    def _make_delivery(self, session: Session) -> SessionDelivery:
        def fail_feed(feed: Feed, failure: Failure) -> None:
            error = failure.value
            if not isinstance(error, BrokerError):
                self.log.failure("reading the event log failed", failure)
                error = LogUnavailable("the event log can not be read at the moment")
            session.end_subscription(feed.number, error)

        return SessionDelivery(
            session,
            clearance=session.identity.clearance.rank,
            limits=QueueLimits.from_settings(self.settings, self.queue_memory),
            log=self.event_log,
            select=partial(self._select_events, session.identity.holder),
            on_failed=fail_feed,
            clock=self._reactor,
            late_validator=self._late_validator,
        )

    async def _select_events(self, *of: Any) -> list[bool]:
        selected = await self._selection.select(*of)
        # The subscription of a suspended query must end before later events are selected.
        self._end_suspended(self.matcher.take_suspended())
        return selected

    def parse_query(self, text: str, namespaces: Mapping[str, str]) -> Any:
        return parse_query(text, namespaces, query_limits(self.settings))

    # ------------------------------------------------------------------ running

    def start(self) -> None:
        """Start the threads and the network, before any connection.

        Raises `ConfigurationError`, with nothing started, if a stack can not open its links.
        """
        if self.transports is not None:
            self.transports.listen()
        self._threads.start()
        self.types.start(self.event_log)
        self.acceptor.incarnations.start()
        self.subscription_requests.announce_stored()
        if self.transports is not None:
            self.transports.start()

    def abandon(self) -> None:
        """Close the log unchanged, if `start` was not called."""
        self.event_log.close_unused()

    def accept_connection(self, channel: ISocketChannel) -> None:
        self.acceptor.accept_connection(channel)

    def tick(self) -> None:
        """Call it every `TICK_INTERVAL`."""
        times = self.stream_times
        if self.output.needs_stream_times:
            times.request_times()
            self.output.send_progress(times.times())
        else:
            times.stop()
            self.output.send_progress()
        self.notices.send_waiting()
        self.audit.tick()
        if self.network is not None:
            self.network.tick()
            self.network.driver.release_overdue()
        self.recovery.run_periodic_jobs()

    def run_maintenance(self) -> None:
        """Call it every `MAINTENANCE_INTERVAL`."""
        self.durables.delete_expired()
        self.types.run_maintenance(self.matcher, self.event_log)
        scrubbed = Deferred.fromCoroutine(self.event_log.scrub())
        for caring in (scrubbed, self.event_log.drop_old_windows()):
            caring.addErrback(lambda failure: self.log.error("{error}", error=failure.value))

    async def stop(self) -> None:
        """Commit and answer accepted events, end the sessions, and close the log."""
        self.notices.stop()
        self.types.stop()
        self.explanation_answers.stop()
        self.stream_times.stop()
        try:
            await self.event_log.drain()
            self.output.send_progress()
            # Clients end first, while events are still forwarded.
            self.acceptor.close()
            if self.transports is not None:
                await self.transports.stop()
            await self.event_log.close()
            await self.audit.drain()
        finally:
            self._threads.stop()

    def _deliver_own(self, events: Any, matches: Any) -> None:
        prompt, prompt_matches = events, matches
        if self.network is not None and self.event_log.flows.ordered:
            prompt, prompt_matches = self.network.driver.withheld.withhold(events, matches)
        self._deliver_relayed(prompt, prompt_matches)
        if self.network is not None:
            self.network.publish_committed(events, matches)

    def _deliver_relayed(self, events: Any, matches: Any) -> None:
        self.output.deliver_commit(events, matches)
        if suspended := self.matcher.take_suspended():
            self._end_suspended(suspended)

    def _end_suspended(self, suspended: list[tuple[int, QueryTooExpensive]]) -> None:
        sessions = {session.delivery: session for session in self.acceptor.sessions}
        for number, error in suspended:
            if self.network is not None and self.network.remote_interest.widen_suspended(number):
                continue
            found = self.output.find_feed(number)
            if found is not None and found[0] in sessions:
                sessions[found[0]].end_subscription(found[1].number, error)

    def dead_origins(self) -> Sequence[str]:
        network = self.network
        if network is None or network.state is None:
            return ()
        return network.replicas.unreachable_origins(network.state.is_origin_in_cluster)
