"""Check of the signatures of events and ranges that other nodes send (DESIGN 9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import attrs
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.network_state import NetworkState
from broker.cluster.range_check import FrameSource, check_ranges, names_unavailable, only_passes
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.version import PROOF_VERSION
from broker.config.network import NetworkSettings
from broker.errors import BadSignature, ProtocolError
from broker.event.flow import origin_of, pattern_of
from broker.event.origin import is_key_known
from broker.event.place import Mark
from broker.event.record import proof_of
from broker.log.logged_event import LoggedEvent
from broker.rate_limited_log import RateLimitedLog
from broker.signatures.event_check import ReceivedEvent, check_events, find_forged
from broker.signatures.recent_events import RecentEvents
from broker.transport.token_bucket import TokenBucket

#: Nodes, and origins, with a count of their own.
MOST_SENDERS = 1_024
#: Rejections of one sender, and in a second, beyond which its events of unknown logs are not
#: checked: a check hashes a key, which takes milliseconds.
MOST_REJECTED = 8
REJECTED_PER_SECOND = 4.0


@attrs.frozen
class SignaturePolicy:
    """Settings of a node about signatures."""

    check_inside: bool = False
    """Check also what nodes of the own cluster send, and frames that only pass it."""
    must_sign: bool = False
    """Events without a signature are rejected."""
    revoked: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin, the last place before its key was stolen."""


def signature_policy(settings: NetworkSettings) -> SignaturePolicy:
    return SignaturePolicy(
        check_inside=settings.verify == "always",
        must_sign=settings.require_signatures,
        revoked={each.origin: each.mark for each in settings.revoked_logs},
    )


class SignatureCheck:
    """Rejects what an origin has not signed, where it enters the cluster.

    A rejected frame is a missing range: its events are requested from the origin node.
    """

    log = Logger()

    def __init__(self, policy: SignaturePolicy, seconds: Callable[[], float]) -> None:
        """`seconds` returns the monotonic time."""
        self._policy = policy
        self._seconds = seconds
        self._allowed_rejections: dict[str, TokenBucket] = {}
        self._warnings = RateLimitedLog(lambda text: self.log.warn("{text}", text=text), seconds)
        self.rejected: Counter[str] = Counter()
        """Frames and pages with a forged event, by the node that sent them."""
        self.signed_twice: Counter[str] = Counter()
        """Places with two signed events, by origin."""
        self._recent = RecentEvents()

    @property
    def must_sign(self) -> bool:
        """True if statements of a log whose name belongs to a key need a signature."""
        return self._policy.must_sign

    def accepts_frame(
        self,
        frame: Frame,
        sender: Address,
        state: NetworkState,
        version: int = PROOF_VERSION,
    ) -> bool:
        """Return False for a frame with a forged event or range, or with a malformed body.
        `version` is that of the link's protocol.

        The events of a frame that only passes this cluster are checked where they enter another.

        Inside the cluster unavailable events are always checked: nothing brings them back.
        """
        is_inside = sender.unit == state.address.unit
        must_check = self._checks_links_inside(frame.origin) or not (
            is_inside or only_passes(frame, state.address)
        )
        if not (must_check or names_unavailable(frame)):
            return True
        source = FrameSource(
            state.address,
            is_inside,
            is_origin_inside=state.is_origin_in_cluster(frame.origin),
            may_lose_statements=version < PROOF_VERSION and not self._policy.must_sign,
        )
        if not self._may_check(frame.origin, sender.node):
            return False
        accepts_events = not must_check or self._accepts_events(frame, sender.node, version)
        return accepts_events and self._accepts_ranges(frame, sender.node, source)

    def _accepts_events(self, frame: Frame, sender: str, version: int) -> bool:
        if not frame.event_count:
            return True
        try:
            events = frame.events_at(range(frame.event_count))
        except ProtocolError as error:
            self.record_rejected(sender, error)
            return False
        # They are decoded once.
        frame.cache_events(events)
        checked = self._with_proofs(events, version)
        return self._accepts(frame.origin, checked, sender, must_sign=self._policy.must_sign)

    def _accepts_ranges(self, frame: Frame, sender: str, source: FrameSource) -> bool:
        try:
            check_ranges(frame, source)
        except BadSignature as error:
            self.record_rejected(sender, error)
            return False
        return True

    def accepts_carried(
        self, flow: str, events: Sequence[ReceivedEvent], sender: str = "", *, is_inside: bool
    ) -> bool:
        """Return False for events of a transport of which one is forged. `is_inside`: the own
        cluster has their origin. Without a sender the transport stands for it."""
        if not self._must_check(flow, is_inside):
            return True
        sender = sender or f"the transport of {pattern_of(flow)}"
        if not self._may_check(flow, sender):
            return False
        return self._accepts(flow, events, sender, must_sign=self._policy.must_sign)

    def accepts_recovered(
        self,
        flow: str,
        events: Sequence[ReceivedEvent],
        sender: str,
        version: int = PROOF_VERSION,
    ) -> bool:
        """Return False for events of a log or an archive of which one is forged. `version` is that
        of the sender's protocol.

        Logs of versions without signatures pass.
        """
        if not self._may_check(flow, sender):
            return False
        events = self._with_proofs(events, version)
        return self._accepts(flow, events, sender, must_sign=False)

    def find_forged(
        self, flow: str, events: Sequence[LoggedEvent], sender: str
    ) -> list[LoggedEvent]:
        """Return the forged ones among the events of an archive."""
        if self.accepts_recovered(flow, events, sender):
            return []
        last = self._policy.revoked.get(origin_of(flow))
        forged = [each for each, _ in find_forged(flow, events, must_sign=False)]
        return [
            each for each in events if each in forged or (last is not None and each.mark > last)
        ]

    def _with_proofs(
        self, events: Sequence[ReceivedEvent], version: int
    ) -> Sequence[ReceivedEvent]:
        """Return the events to check: earlier versions send no proofs."""
        if version >= PROOF_VERSION or self._policy.must_sign:
            return events
        return [each for each in events if proof_of(each.record)]

    def _must_check(self, flow: str, is_inside: bool) -> bool:
        return not is_inside or self._checks_links_inside(flow)

    def _checks_links_inside(self, flow: str) -> bool:
        return self._policy.check_inside or origin_of(flow) in self._policy.revoked

    def _accepts(
        self, flow: str, events: Sequence[ReceivedEvent], sender: str, *, must_sign: bool
    ) -> bool:
        try:
            last = self._policy.revoked.get(origin_of(flow))
            if last is not None and any(each.mark > last for each in events):
                raise BadSignature(
                    f"the log {origin_of(flow)} is revoked after {last[0]}:{last[1]}"
                )
            signed = check_events(flow, events, must_sign=must_sign)
        except BadSignature as error:
            self.record_rejected(sender, error)
            return False
        for mark in self._recent.find_second(origin_of(flow), signed):
            self._record_second(origin_of(flow), mark)
        return True

    def _record_second(self, origin: str, mark: Mark) -> None:
        """Count and log a second event at a place. The log keeps the first one."""
        _count(self.signed_twice, origin)
        text = (
            f"the node of the log {origin} has signed two events for the place {mark[0]}:{mark[1]}"
        )
        self._warnings.report(origin, "signed-twice", f"{text}, or two nodes have its key")

    def record_rejected(self, sender: str, error: ProtocolError) -> None:
        """Count and log a rejection; further senders share one count."""
        now = self._seconds()
        counted = self._report(sender, error)
        bucket = self._allowed_rejections.get(counted)
        if bucket is None:
            bucket = TokenBucket(REJECTED_PER_SECOND, MOST_REJECTED, now)
            self._allowed_rejections[counted] = bucket
        if bucket.tokens_at(now) >= 1:
            bucket.take(1, now)

    def _may_check(self, flow: str, sender: str) -> bool:
        """Return False for events of an unknown log from a sender of many forged ones.

        They are a missing range, which is requested again.
        """
        origin = origin_of(flow)
        bucket = self._allowed_rejections.get(sender if sender in self.rejected else "")
        if bucket is None or is_key_known(origin) or bucket.tokens_at(self._seconds()) >= 1:
            return True
        self._report(sender, BadSignature(f"after many forged events, of the new log {origin}"))
        return False

    def _report(self, sender: str, error: ProtocolError) -> str:
        sender = _count(self.rejected, sender)
        self._warnings.report(
            sender, error.code, f"{sender or 'a node'} sent what is rejected: {error}"
        )
        return sender


def _count(counts: Counter[str], name: str) -> str:
    """Count a name, and return it; further ones share the empty name."""
    if name not in counts and len(counts) >= MOST_SENDERS:
        name = ""
    counts[name] += 1
    return name
