"""The matcher of a node, by its settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from twisted.logger import Logger

from broker.config import Settings
from broker.dtd.interfaces import IDtdCache
from broker.limit_registry import LimitRegistry
from broker.matching.contract import IMatcher
from broker.matching.document_limits import DocumentLimits
from broker.matching.name_watch import NameWatch
from broker.matching.query.limits import QueryLimits
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.switch import Switch
from broker.rate_limited_log import RateLimitedLog

_log = Logger()
_ENGINES: Mapping[str, Callable[..., IMatcher]] = {
    "switch": Switch,
    "reference": ReferenceMatcher,
}


def make_matcher(
    settings: Settings, dtds: IDtdCache, limit_registry: LimitRegistry | None = None
) -> IMatcher:
    return _ENGINES[settings.validation.engine](
        dtds,
        document_limits=DocumentLimits(
            max_bytes=settings.limits.max_event_bytes,
            max_depth=settings.limits.max_depth,
            max_attributes=settings.limits.max_attributes,
            max_markup=settings.limits.max_markup,
        ),
        query_limits=query_limits(settings),
        clock=time.perf_counter,
        max_run_time=settings.query.max_run_time,
        max_share=settings.query.max_share,
        names=NameWatch(
            limit_registry=limit_registry,
            log=RateLimitedLog(lambda text: _log.warn("{text}", text=text), time.monotonic),
        ),
        processor_clock=time.thread_time,
    )


def query_limits(settings: Settings) -> QueryLimits:
    return QueryLimits(max_length=settings.query.max_length, max_cost=settings.query.max_cost)
