"""Share of the reactor's time for the questions of each account: a tenth."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, maybeDeferred

from broker.errors import Overloaded
from broker.identity import Identity
from broker.limit_registry import LimitRegistry
from broker.sessions.session import Answerer
from broker.transport.clock import IClock
from broker.transport.token_bucket import TokenBucket
from broker.wire.messages import Ask

#: Seconds that pass for a second of answering.
FACTOR: Final = 10.0
#: Seconds by which an account may be ahead: a client asks a few questions at once.
BURST: Final = 0.2
#: Questions of one account; further ones are refused.
MAX_WAITING: Final = 256


@attrs.define
class _Account:
    seconds: TokenBucket
    """Those that have not passed for its answers."""
    waiting: deque[Callable[[], None]] = attrs.field(factory=deque)


class QuestionTurns:
    """Delays the questions of an account that has used its share."""

    def __init__(self, clock: IClock, limit_registry: LimitRegistry) -> None:
        self._clock = clock
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        """Those with recent questions; the one that asked last is last."""
        self._limit = limit_registry.add(
            "questions",
            per="account",
            bound=lambda: MAX_WAITING,
            used=lambda: max((len(each.waiting) for each in self._accounts.values()), default=0),
        )

    def share(self, answerer: Answerer) -> Answerer:
        """Return an answerer that runs in the asking account's share.

        It fails with `Overloaded` if too many of its questions wait.
        """

        def answer(identity: Identity, ask: Ask) -> Any:
            account = self._find_account(identity.holder)
            if not account.waiting and not self._wait_of(account):
                return self._run(account, lambda: answerer(identity, ask))
            if len(account.waiting) >= MAX_WAITING:
                self._limit.count_reached()
                raise Overloaded("too many questions of this account wait: ask again later")
            done: Deferred[Any] = Deferred()

            def run_later() -> None:
                answered = maybeDeferred(self._run, account, lambda: answerer(identity, ask))
                answered.chainDeferred(done)

            account.waiting.append(run_later)
            if len(account.waiting) == 1:
                self._schedule(account)
            return done

        return answer

    def _run(self, account: _Account, work: Callable[[], Any]) -> Any:
        began = self._clock.seconds()
        try:
            return work()
        finally:
            account.seconds.take(FACTOR * (self._clock.seconds() - began), began)

    def _wait_of(self, account: _Account) -> float:
        return account.seconds.seconds_until(0.0, self._clock.seconds())

    def _schedule(self, account: _Account) -> None:
        self._clock.callLater(self._wait_of(account), self._run_next, account)

    def _run_next(self, account: _Account) -> None:
        account.waiting.popleft()()
        if account.waiting:
            self._schedule(account)

    def _find_account(self, holder: str) -> _Account:
        accounts, now = self._accounts, self._clock.seconds()
        while accounts:
            oldest = next(iter(accounts.values()))
            if oldest.waiting or oldest.seconds.tokens_at(now) < BURST:
                break
            accounts.popitem(last=False)
        found = accounts.get(holder)
        if found is None:
            found = accounts[holder] = _Account(TokenBucket(1.0, BURST, now))
        accounts.move_to_end(holder)
        return found
