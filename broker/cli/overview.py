"""Tables of several nodes side by side, and of their links, with counts or rates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from broker.cli.node_sample import Sample, lags_of, links_of, number_at
from broker.cli.terminal import one_line

if TYPE_CHECKING:
    from rich.table import Table

#: Per second, by counter.
Rates = Mapping[str, float]

# Each table fits into 80 columns.
_NODE_COLUMNS = ("node", "leads", "members", "units", "links", "sessions", "state")
_EVENT_COLUMNS = (
    "node",
    "published",
    "delivered",
    "relayed",
    "frames",
    "stuck",
    "missing",
    "waiting",
)
_RECOVERY_COLUMNS = (
    "node",
    "archived",
    "behind",
    "archive",
    "recoveries",
    "recovered",
    "lost",
    "replayer",
)
_DURABLE_COLUMNS = ("node", "client", "subscription", "state", "events", "KiB", "seconds")
_LINK_COLUMNS = ("link", "by", "state")
_TRAFFIC_COLUMNS = (
    *("link", "out", "KiB out", "in", "KiB in"),
    *("full", "redials", "lost", "resent"),
)
_TEXT_COLUMNS = frozenset(
    {"client", "subscription", "node", "leads", "state", "link", "by", "archive", "replayer"}
    | {"parent", "child"}
)


def overview_tables(samples: Sequence[Sample], rates: Sequence[Rates]) -> Iterable[Table]:
    """A rate replaces its count."""
    yield make_table("Nodes", _NODE_COLUMNS, map(_node_row, samples))
    here = [
        (sample, sample.status, rate)
        for sample, rate in zip(samples, rates, strict=True)
        if sample.status is not None
    ]
    yield make_table("Events", _EVENT_COLUMNS, (_events_row(*each) for each in here))
    recovering = [each for each in here if isinstance(each[1].get("recovery"), Mapping)]
    if recovering:
        yield make_table(
            "Recovery", _RECOVERY_COLUMNS, (_recovery_row(*each) for each in recovering)
        )
    lags = [(status, lag) for _, status, _ in here for lag in lags_of(status) if _is_behind(lag)]
    if lags:
        yield make_table(
            "Durable subscriptions that are behind",
            _DURABLE_COLUMNS,
            (_lag_row(*each) for each in lags),
        )
    links = [(status, link, rate) for _, status, rate in here for link in links_of(status)]
    if links:
        yield make_table(
            "Links", _LINK_COLUMNS, (_link_row(status, link) for status, link, _ in links)
        )
        yield make_table("Traffic", _TRAFFIC_COLUMNS, (_traffic_row(*each) for each in links))


def link_tables(status: Mapping[str, Any]) -> Iterable[Table]:
    links = list(links_of(status))
    yield make_table("Links", _LINK_COLUMNS, (_link_row(status, link) for link in links))
    yield make_table(
        "Traffic", _TRAFFIC_COLUMNS, (_traffic_row(status, link, {}) for link in links)
    )


def durable_table(lags: Iterable[Mapping[str, Any]]) -> Table:
    return make_table(
        "Durable subscriptions", _DURABLE_COLUMNS[1:], (_lag_cells(lag) for lag in lags)
    )


def _is_behind(lag: Mapping[str, Any]) -> bool:
    return bool(lag.get("events") or lag.get("before_log") or lag.get("state") == "paused")


def _lag_row(status: Mapping[str, Any], lag: Mapping[str, Any]) -> list[str]:
    return [_node_name(status), *_lag_cells(lag)]


def _lag_cells(lag: Mapping[str, Any]) -> list[str]:
    names = [one_line(str(lag.get(key))) for key in ("client", "name", "state")]
    if lag.get("events") is None:
        # The subscription is at another node.
        return [*names, "-", "-", "-"]
    return [
        *names,
        f"{number_at(lag, 'events') + number_at(lag, 'before_log'):,.0f}",
        f"{number_at(lag, 'bytes') / 1024:,.0f}",
        f"{number_at(lag, 'seconds'):,.0f}",
    ]


def _node_row(sample: Sample) -> list[str]:
    status = sample.status
    if status is None:
        # The row names the endpoint.
        error = sample.error.replace(f" at {sample.endpoint}", "")
        return [one_line(sample.endpoint), *[""] * 5, f"unreachable: {one_line(error)}"]
    sessions = str(len(status.get("sessions", ())))
    network = status.get("network")
    if not isinstance(network, Mapping):
        return [_node_name(status), *[""] * 4, sessions, _with_log_state(status, "alone")]
    members = network.get("members", ())
    reachable = sum(bool(member.get("reachable")) for member in members)
    links = list(links_of(status))
    return [
        _node_name(status),
        one_line(", ".join(network.get("leads", ()))),
        f"{reachable}/{len(members)}",
        str(len(network.get("units", ()))),
        f"{sum(bool(link.get('up')) for link in links)}/{len(links)}",
        sessions,
        _with_log_state(status, _membership_state(network)),
    ]


def _events_row(sample: Sample, status: Mapping[str, Any], rates: Rates) -> list[str]:
    counts = sample.counters()
    return [
        _node_name(status),
        *(
            _format_amount(name, counts, rates)
            for name in ("published", "delivered", "relayed", "frames")
        ),
        f"{number_at(status, 'network', 'frames', 'stuck'):,}",
        f"{number_at(status, 'network', 'arrivals', 'holes'):,}",
        f"{number_at(status, 'network', 'arrivals', 'waiting'):,}",
    ]


def _recovery_row(sample: Sample, status: Mapping[str, Any], rates: Rates) -> list[str]:
    counts = sample.counters()
    recovery = status["recovery"]
    archive, replays = recovery.get("archive"), recovery.get("replays")
    behind = "-"
    if isinstance(archive, Mapping) and archive.get("behind") is not None:
        behind = f"{archive['behind']:,}"
    return [
        _node_name(status),
        _format_amount("archived", counts, rates) if archive else "-",
        behind,
        _archive_state(archive),
        f"{number_at(recovery, 'recoveries', 'under_way'):,}",
        _format_amount("recovered", counts, rates),
        f"{number_at(recovery, 'recoveries', 'lost_places'):,}",
        _replayer_state(replays),
    ]


def _archive_state(archive: Any) -> str:
    if not isinstance(archive, Mapping):
        return "none"
    if archive.get("problem"):
        return "problem"
    return "up" if archive.get("runs") else "down"


def _replayer_state(replays: Any) -> str:
    if not isinstance(replays, Mapping):
        return "-"
    return one_line(str(replays.get("engine", "begins"))) if replays.get("runs") else "at rest"


def _with_log_state(status: Mapping[str, Any], state: str) -> str:
    log = status.get("log")
    broken = isinstance(log, Mapping) and log.get("writable") is False
    return f"{state}, log not writable" if broken else state


def _membership_state(network: Mapping[str, Any]) -> str:
    address = network.get("address")
    if address is None:
        return "in no cluster"
    own = str(address).rpartition("/")[2]
    leaving = any(
        member.get("draining") for member in network.get("members", ()) if member["node"] == own
    )
    return "draining" if leaving else "up"


def _node_name(status: Mapping[str, Any]) -> str:
    network = status.get("network")
    address = network.get("address") if isinstance(network, Mapping) else None
    return one_line(str(address or status.get("node")))


def _link_row(status: Mapping[str, Any], link: Mapping[str, Any]) -> list[str]:
    trust = "" if link.get("trusted") else ", not trusted"
    return [
        _link_name(status, link),
        one_line(f"{link.get('transport')} {link.get('peer')}"),
        ("up" if link.get("up") else "down") + trust,
    ]


def _traffic_row(status: Mapping[str, Any], link: Mapping[str, Any], rates: Rates) -> list[str]:
    name = link.get("node")
    counters = ("sent", "sent_bytes", "received", "received_bytes")
    counts = {f"{name}/{counter}": number_at(link, counter) for counter in counters}
    return [
        _link_name(status, link),
        *(
            _format_amount(f"{name}/{counter}", counts, rates, kib=counter.endswith("bytes"))
            for counter in counters
        ),
        f"{number_at(link, 'full'):,}",
        f"{number_at(link, 'reconnections'):,}",
        *(
            f"{number_at(link, 'corrections', what):,}" if link.get("corrections") else "-"
            for what in ("lost", "repeated")
        ),
    ]


def _link_name(status: Mapping[str, Any], link: Mapping[str, Any]) -> str:
    return one_line(f"{_node_name(status)} - {link.get('address')}")


def _format_amount(
    name: str, counts: Mapping[str, float], rates: Rates, *, kib: bool = False
) -> str:
    unit = 1024 if kib else 1
    if name in rates:
        return f"{rates[name] / unit:,.1f}/s"
    return f"{counts.get(name, 0) / unit:,.0f}"


def make_table(title: str, headings: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table; columns that are not of names and texts are justified to the right."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading in headings:
        text = heading in _TEXT_COLUMNS
        table.add_column(
            heading,
            justify="left" if text else "right",
            no_wrap=heading in ("node", "link"),
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    return table
