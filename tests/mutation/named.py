"""Mutants that once survived all tests, each with the test that must notice it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.mutation.groups import ROOT
from tests.mutation.mutants import Mutant

_RECOVERY: Final = (
    "tests/recovery/test_subscription_recovery.py::test_no_source_yields_events_above_the_clearance"
)
_PAGES: Final = (
    "tests/recovery/test_log_page_reader.py::"
    "test_a_page_omits_and_counts_events_above_the_clearance"
)
_EXCHANGE: Final = "tests/recovery/test_page_exchange.py::"
_ADDRESSES: Final = (
    "tests/simulation/network/test_addresses.py::test_excluded_node_founds_its_own_cluster"
)
_ADMISSION: Final = "tests/cluster/test_admission.py::test_address_rules_restrict_members"
_SLOW_NODES: Final = "tests/simulation/network/test_slow_nodes.py::"

#: Module, test, and replacements; each replaces all occurrences in the module.
NAMED: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    # Ignore clearance.
    ("recovery/archive_source", _RECOVERY, {"clearance=missed.clearance": "clearance=2"}),
    ("recovery/log_source", _RECOVERY, {"missed.clearance, ranges": "2, ranges"}),
    ("recovery/log_page_reader", _PAGES, {"event.level > request.clearance": "False"}),
    (
        "replay/engine/request_matcher",
        "tests/replay/engine/test_request_matcher.py::test_clearance_leaves_out_and_counts",
        {
            "group.query, client, group.clearance": "group.query, client, 2",
            "places.level > group.clearance": "places.level > 2",
        },
    ),
    (
        "recovery/page_exchange",
        _EXCHANGE + "test_a_page_is_read_with_the_clearance_of_its_reader",
        {"request.clearance, ranges": "2, ranges", "message.clearance,": "2,"},
    ),
    (
        "recovery/page_exchange",
        _EXCHANGE + "test_a_page_has_only_events_cleared_for_the_route",
        {"if self._messenger.is_cleared(message.source, e.level)": "if True"},
    ),
    # Drop allow, deny and segments.
    (
        "cluster/network_factory",
        _ADDRESSES,
        {
            "allow=tuple(ip_network(each) for each in network_settings.allow)": "allow=()",
            "deny=tuple(ip_network(each) for each in network_settings.deny)": "deny=()",
            'attached_networks if network_settings.segment == "same" else None': "None",
            ", rules.allows)": ")",
        },
    ),
    (
        "cluster/admission",
        _ADMISSION,
        {
            "if any(ip in network for network in self.deny)": "if False",
            "if self.allow and not any(ip in network for network in self.allow)": "if False",
            "self.segments is None or": "True or",
            "if not rules.is_address_allowed(host)": "if False",
        },
    ),
    # Never too slow.
    (
        "cluster/timer_lag",
        _SLOW_NODES + "test_timer_lag_marks_a_slow_machine",
        {"self.average > (SLOW_UNTIL if self.is_slow else SLOW_FROM)": "False"},
    ),
    (
        "cluster/network",
        _SLOW_NODES + "test_slow_node_refers_to_another_member",
        {
            " or self.timer_lag.is_slow": "",
            "self.driver.relay_ingest.is_overloaded() or ": "",
            "self.membership.set_slow(self.timer_lag.is_slow)": "pass",
        },
    ),
    (
        "cluster/admission",
        _SLOW_NODES + "test_slow_node_refers_to_another_member",
        {"if context.is_overloaded and": "if False and"},
    ),
    (
        "cluster/meshing",
        "tests/cluster/test_meshing.py::test_concurrent_dials_are_bounded",
        {"MOST_DIALS_IF_SLOW if self.is_slow else MOST_DIALS": "MOST_DIALS"},
    ),
)


def module_of(name: str) -> Path:
    return ROOT / "broker" / f"{name}.py"


def named_mutants() -> Iterator[tuple[Mutant, str]]:
    for name, test, changes in NAMED:
        path = module_of(name)
        source = path.read_text()
        for before, after in changes.items():
            if before not in source:
                raise SystemExit(f"broker/{name}.py has no {before!r}")
            line = source[: source.index(before)].count("\n") + 1
            changed = source.replace(before, after)
            yield Mutant(path, "named", "", range(0), before, after, changed, line), test
