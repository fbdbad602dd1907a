from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.messages import CHANGED, REMOVED, REPLACED, TableChange, Update
from broker.cluster.tables import message_parts as parts
from broker.cluster.tables.group import Group
from broker.cluster.tables.message_parts import Reassembly, split_update
from broker.cluster.tables.table import GroupKey, TableLimits

LIMITS = TableLimits()
KEYS = st.sampled_from(["a", "b", "c"])
ENTRIES = st.lists(
    st.tuples(KEYS, st.none() | st.integers(0, 3) | st.text(max_size=20)), max_size=4
).map(tuple)
NAMES = st.sampled_from([("k", "s"), ("k", "t"), ("l", "s")])
CHANGES: st.SearchStrategy[TableChange] = st.one_of(
    st.builds(lambda n, how, e: (*n, how, e), NAMES, st.sampled_from([CHANGED, REPLACED]), ENTRIES),
    NAMES.map(lambda name: (*name, REMOVED, ())),
)
STEPS = st.lists(st.lists(CHANGES, min_size=1, max_size=3).map(tuple), min_size=1, max_size=8)


def made(steps: list[tuple[TableChange, ...]]) -> Group:
    group = Group(GroupKey("x", ()), ())
    for number, changes in enumerate(steps):
        group.apply_changes((1, number + 1), number, changes, LIMITS)
    return group


@given(STEPS, st.data())
def test_changes_from_any_earlier_base_give_equal_content(
    steps: list[tuple[TableChange, ...]], data: st.DataObject
) -> None:
    newest = made(steps)
    known = data.draw(st.integers(0, len(steps)))
    older = made(steps[:known])
    base, changes = newest.changes_since(1, data.draw(st.integers(0, known)))
    before = {name: dict(table) for name, table in older.tables.items()}
    differences = older.apply_changes(newest.version, base, changes, LIMITS)
    assert older.tables == newest.tables
    for name, (entries, is_removed) in differences.items():
        table = before.setdefault(name, {})
        for key, value in entries.items():
            if value is None:
                del table[key]
            else:
                table[key] = value
        if is_removed:
            assert not before.pop(name)
    assert before == newest.tables


@given(STEPS, st.integers(1, 60))
def test_a_split_update_is_reassembled(steps: list[tuple[TableChange, ...]], size: int) -> None:
    changes = tuple(change for step in steps for change in step)
    update = Update("x", (), (), 1, 0, 1, 0, changes, False)
    reassembly = Reassembly(LIMITS)
    with patch.object(parts, "PART_BYTES", size):
        pieces = split_update(update)
    *others, last = [reassembly.add_update_part(piece) for piece in pieces]
    assert others == [None] * (len(pieces) - 1)
    assert last is not None
    assert made([last.tables]).tables == made([changes]).tables
