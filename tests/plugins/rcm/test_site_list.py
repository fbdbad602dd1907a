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


def record(
    name: str, time: int, address: str = "tcp:host=h:port=1", site: str = "a", version: int = 1
) -> SiteRecord:
    """Return a record of a change; without an address the site has left."""
    return SiteRecord(name, address, bool(address), Change(time, site, site, 1, time), version)


def unite(one: SiteList, other: SiteList) -> SiteList:
    return one.united("a", other)


def test_lists_unite_to_the_same_in_every_sequence() -> None:
    random = Random(1)
    for _ in range(200):
        lists = []
        for _ in range(3):
            changes = [
                record(
                    *(random.choice("bcdef"), time, random.choice(("", "tcp:host=h:port=2"))),
                    *(random.choice("xyz"), random.choice((1, 2))),
                )
                for time in random.sample(range(1, 9), 3)
            ]
            lists.append(reduce(SiteList.changed, changes, CONFIGURED))
        found = {reduce(unite, each).records for each in permutations(lists)}
        assert len(found) == 1
        united = reduce(unite, lists)
        first, second, third = lists
        assert unite(first, unite(second, third)) == united
        assert unite(united, united) == united == unite(united, lists[0])


def test_of_two_changes_of_a_name_the_later_one_counts() -> None:
    earlier, later = record("d", 5, "tcp:host=one:port=1"), record("d", 5, site="b")
    for changes in permutations((earlier, later)):
        assert reduce(SiteList.changed, changes, CONFIGURED).find("d") == later
    assert "d" not in CONFIGURED.changed(record("d", 6, "")).changed(later).members


def test_a_change_that_has_seen_another_one_counts_wherever_that_was_delivered() -> None:
    """A site that was removed alone numbers its own removal above its later admission."""
    removal = record("c", 10, "", version=3)
    elsewhere = record("c", 99, "", site="c", version=3)
    admission = record("c", 11, version=4)
    for changes in permutations((removal, elsewhere, admission)):
        assert reduce(SiteList.changed, changes, CONFIGURED).find("c") == admission
    # So it is for the removed site, which gets the list.
    removed = CONFIGURED.changed(elsewhere)
    assert "c" in removed.united("c", CONFIGURED.changed(admission)).members
    assert removed.version == 3


def test_what_a_removed_site_has_changed_since_does_not_count() -> None:
    sites = CONFIGURED.changed(record("c", 5, "")).changed(record("e", 6))
    own = CONFIGURED.changed(record("d", 99, site="c", version=2))
    own = own.changed(record("a", 98, "", site="c", version=2))
    taken = own.united("c", sites)
    assert taken == sites and taken.united("a", sites) == sites
    # It takes over what changes while it is outside.
    later = sites.changed(record("b", 7, "", version=3))
    assert taken.united("c", later) == later
    # Nor does it count if it has taken itself out, when it is admitted.
    alone = own.changed(record("c", 99, "", site="c", version=3))
    admitted = sites.changed(record("c", 8, version=4))
    assert alone.united("c", sites).find("c") == alone.find("c")
    assert alone.united("c", sites).united("c", admitted) == admitted


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
    assert sites.is_unknown_to("d", newcomer)
    taken = newcomer.united("d", sites)
    assert taken.members.keys() == {"a", "b", "d"} and taken.left == ["c"]
    # Its own address of a site counts for it.
    assert taken.members["a"] == own["a"]
    taken.check_configured(sites)
    assert not sites.is_unknown_to("d", taken)


def test_other_configured_sites_are_refused_with_both_values() -> None:
    other = SiteList.from_configuration(dict.fromkeys("abd", "tcp:host=h:port=1"))
    with pytest.raises(VersionMismatch, match="sites is a, b, d there and a, b, c here"):
        CONFIGURED.united("a", other).check_configured(other)
    # A change explains a difference.
    changed = CONFIGURED.changed(record("c", 1, ""))
    changed.check_configured(CONFIGURED)
    CONFIGURED.united("a", changed).check_configured(changed)


@pytest.mark.parametrize(
    "wrong",
    [
        record("no name", 1),
        record("d", 1, "udp:host=h:port=1"),
        record("d", 1, "tcp:host=h:port=70000"),
        SiteRecord("d", "tcp:host=h:port=1", False, Change(1, "a", "a", 1, 1)),
        SiteRecord("d", "", False),
        record("d", 1, version=0),
        SiteRecord("d", "tcp:host=h:port=1", True, None, 1),
        record("b", 1),
    ],
)
def test_records_that_no_site_makes_are_refused(wrong: SiteRecord) -> None:
    records = (wrong, record("b", 2))
    with pytest.raises(ProtocolError):
        SiteList.from_records(records)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(records)) is not None
