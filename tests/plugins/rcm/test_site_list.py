"""The list of a group's sites as a value."""

from __future__ import annotations

from functools import reduce
from itertools import permutations
from random import Random

import msgspec
import pytest

from broker.errors import ProtocolError, VersionMismatch
from plugins.rcm.options import MOST_SITES
from plugins.rcm.site_list import MOST_LEFT, Change, SiteList, SiteRecord

CONFIGURED = SiteList.from_configuration({name: f"tcp:host={name}:port=1" for name in "abc"})


def record(name: str, time: int, address: str = "tcp:host=h:port=1", site: str = "a") -> SiteRecord:
    """Return a record of a change; without an address the site has left."""
    return SiteRecord(name, address, bool(address), Change(time, site, site, 1, time))


def unite(one: SiteList, other: SiteList) -> SiteList:
    return one.united("a", other)


def test_lists_unite_to_the_same_in_every_sequence() -> None:
    random = Random(1)
    for _ in range(200):
        lists = []
        for site in "xyz":
            changes = [
                record(random.choice("bcdef"), time, random.choice(("", "tcp:host=h:port=2")), site)
                for time in random.sample(range(1, 9), 3)
            ]
            lists.append(reduce(SiteList.changed, changes, CONFIGURED))
        found = {reduce(unite, each).records for each in permutations(lists)}
        assert len(found) == 1
        united = reduce(unite, lists)
        assert unite(united, united) == united == unite(united, lists[0])


def test_of_two_changes_of_a_name_the_later_one_counts() -> None:
    earlier, later = record("d", 5, "tcp:host=one:port=1"), record("d", 5, site="b")
    for changes in permutations((earlier, later)):
        assert reduce(SiteList.changed, changes, CONFIGURED).find("d") == later
    assert "d" not in CONFIGURED.changed(record("d", 6, "")).changed(later).members


def test_beyond_the_bound_sites_that_were_admitted_first_are_members() -> None:
    admitted = [record(f"s{number}", number) for number in range(1, MOST_SITES)]
    for sequence in (admitted, admitted[::-1]):
        full = reduce(SiteList.changed, sequence, CONFIGURED)
        assert len(full.members) == MOST_SITES
        assert full.left == [f"s{MOST_SITES - 2}", f"s{MOST_SITES - 1}"]
    # Another one leaves, and the next one is a member.
    assert f"s{MOST_SITES - 2}" in full.changed(record("s1", 99, "")).members


def test_the_last_sites_that_left_are_known() -> None:
    gone = [record(f"s{number}", number, "") for number in range(1, MOST_LEFT + 3)]
    found = reduce(SiteList.changed, gone, CONFIGURED)
    assert len(found.left) == MOST_LEFT and "s2" not in found.left and "s3" in found.left


def test_an_admitted_site_takes_over_the_list() -> None:
    sites = CONFIGURED.changed(record("d", 7)).changed(record("c", 8, ""))
    own = {"a": "tcp:host=inside:port=1", "d": "tcp:host=d:port=1"}
    newcomer = SiteList.from_configuration(own)
    assert newcomer.united("d", CONFIGURED) == newcomer
    sites.check_configured("d", newcomer)
    taken = newcomer.united("d", sites)
    assert taken.members.keys() == {"a", "b", "d"} and taken.left == ["c"]
    # Its own address of a site counts for it.
    assert taken.members["a"] == own["a"]
    taken.check_configured("a", sites)


def test_other_configured_sites_are_refused_with_both_values() -> None:
    other = SiteList.from_configuration(dict.fromkeys("abd", "tcp:host=h:port=1"))
    with pytest.raises(VersionMismatch, match="sites is a, b, d there and a, b, c here"):
        CONFIGURED.united("a", other).check_configured("b", other)
    # A change explains a difference.
    changed = CONFIGURED.changed(record("c", 1, ""))
    changed.check_configured("b", CONFIGURED)
    CONFIGURED.united("a", changed).check_configured("b", changed)


@pytest.mark.parametrize(
    "wrong",
    [
        record("no name", 1),
        record("d", 1, "udp:host=h:port=1"),
        record("d", 1, "tcp:host=h:port=70000"),
        SiteRecord("d", "tcp:host=h:port=1", False, Change(1, "a", "a", 1, 1)),
        SiteRecord("d", "", False),
        record("b", 1),
    ],
)
def test_records_that_no_site_makes_are_refused(wrong: SiteRecord) -> None:
    records = (wrong, record("b", 2))
    with pytest.raises(ProtocolError):
        SiteList.from_records(records)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(records)) is not None
