"""Members in sheets: found by bitmaps over several holes, however many they are (checklist F5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from broker.matching.index.bitmap import SHEET_SIZE
from broker.matching.index.directory import Directory
from broker.matching.index.fences import Fences
from broker.matching.index.holes import Hole, Operator
from broker.matching.index.member import Member
from broker.matching.index.needles import Needles
from broker.matching.index.sheet import Sheet

_SHEET = (1 << SHEET_SIZE) - 1
_SHEET_BYTES = SHEET_SIZE // 8
#: A sheet of this many members is parted, member by member while the table is changed, so that no
#: change waits for all of it; what comes in meanwhile has the rest of the sheet.
_PARTED = SHEET_SIZE * 3 // 4
#: A sheet of fewer members than this gives them away in the same manner.
_GIVEN_UP = SHEET_SIZE // 8
#: So many members that come at once have a sheet of their own. To load it takes each of them some
#: microsecond, where to be added takes one ten times as long.
_WORTH_A_SHEET = SHEET_SIZE // 4


class Table:
    """Members by those holes of the template that are given with their positions.

    A member's number in the bitmaps of `bits` and `everyone` may change with every `add` and
    `remove`.
    """

    __slots__ = ("_directory", "_fences", "_holes", "_leaving", "_needles", "_sheets", "size")

    def __init__(self, holes: Mapping[int, Hole], members: Iterable[Member] = ()) -> None:
        self._holes = holes
        self._needles = {
            position: Needles()
            for position, hole in holes.items()
            if hole.operator is Operator.CONTAINS
        }
        self._sheets: list[Sheet] = []
        #: Sheets that are being parted or given up -> members yet to move, which may be gone.
        self._leaving: dict[Sheet, list[Member]] = {}
        self._directory: Directory | None = None
        self._fences = Fences(self._open_sheet())
        self.size = 0
        self.add_many(list(members))

    def add(self, member: Member) -> None:
        """Take in a member that is not here."""
        self._directory = None
        sheet = self._place(member)
        self.size += 1
        if sheet.size >= _PARTED and sheet not in self._leaving:
            self._part(sheet)
        self._move_one(sheet)

    def add_many(self, members: Sequence[Member]) -> None:
        """Take in members that are not here, into sheets of their own if they are worth it."""
        self._directory = None
        for start in range(0, len(members), _PARTED):
            some = members[start : start + _PARTED]
            empty = not self.size
            if len(some) < _WORTH_A_SHEET and not empty:
                for member in some:
                    self.add(member)
                continue
            sheet = self._sheets[0] if empty else self._open_sheet()
            sheet.load(some)
            self.size += len(some)

    def remove(self, member: Member) -> None:
        """Forget a member that is here."""
        self._directory = None
        sheet = cast(Sheet, member.sheet)
        sheet.remove(member)
        self.size -= 1
        if sheet.size < _GIVEN_UP and (not self._leaving or not sheet.size):
            self._give_up(sheet)
        self._move_one(sheet)
        self._close(sheet)

    def members(self) -> list[Member]:
        """Everyone."""
        return [member for sheet in self._sheets for member in sheet.take(sheet.everyone)]

    def find_rows(
        self,
        columns: Sequence[Sequence[Any]],
        rows: int,
        _known: dict[Any, Any] | None = None,
    ) -> list[tuple[int, list[Member]]]:
        """As `Members.find_rows`; members are compared on the holes of this table alone."""
        prepared: dict[int, Sequence[Any]] = {
            position: columns[position] for position in self._holes
        }
        for position, needles in self._needles.items():
            prepared[position] = needles.column(columns[position])
        if len(self._sheets) == 1:
            return self._sheets[0].find_rows(prepared, rows)
        if self._directory is None:
            self._directory = Directory(self._holes, self._sheets)
        found: dict[int, list[Member]] = {}
        for sheet, chosen in zip(self._sheets, self._directory.rows_of(columns, rows), strict=True):
            if not chosen:
                continue
            some = _gathered(prepared, chosen)
            for at, members in sheet.find_rows(some, len(chosen)):
                row = chosen[at]
                if row in found:
                    found[row] += members
                else:
                    found[row] = members
        return [(row, found[row]) for row in sorted(found)]

    @property
    def everyone(self) -> int:
        """The bitmap of all members."""
        return _joined(sheet.everyone for sheet in self._sheets)

    def bits(self, position: int, value: Any) -> int:
        """The bitmap of exactly those that a value satisfies at one hole."""
        return _joined(sheet.bits(position, value) for sheet in self._sheets)

    def members_of(self, bitmap: int) -> list[Member]:
        """The members of a bitmap."""
        found = []
        for sheet in self._sheets:
            if not bitmap:
                break
            found += sheet.take(bitmap & _SHEET)
            bitmap >>= SHEET_SIZE
        return found

    def _open_sheet(self) -> Sheet:
        sheet = Sheet(self._holes, self._needles)
        self._sheets.append(sheet)
        return sheet

    def _place(self, member: Member) -> Sheet:
        """Put a member where the fences say, or anywhere if there is no room."""
        sheet = self._fences.sheet_for(member)
        if sheet.full:
            roomy = (each for each in self._sheets if not each.full and each not in self._leaving)
            sheet = next(roomy, None) or self._open_sheet()
        sheet.add(member)
        return sheet

    def _part(self, sheet: Sheet) -> None:
        parting = sheet.parting(self._fences.position_above(sheet))
        if parting is not None:
            position, fence, leaving = parting
            self._fences.part(sheet, position, fence, self._open_sheet())
            self._leaving[sheet] = leaving

    def _give_up(self, sheet: Sheet) -> None:
        self._fences.detach(sheet)
        if not self._fences.leads_to(sheet):
            self._leaving[sheet] = sheet.take(sheet.everyone)

    def _move_one(self, sheet: Sheet) -> None:
        """Let a member leave this sheet, or another if none is leaving this one."""
        if not self._leaving:
            return
        if sheet not in self._leaving:
            if self.size % 2:
                # Every other change is enough, and the others are cheap.
                return
            sheet = next(iter(self._leaving))
        leaving = self._leaving[sheet]
        while leaving:
            member = leaving.pop()
            if member.sheet is sheet:
                if self._fences.sheet_for(member) is not sheet:
                    sheet.remove(member)
                    self._place(member)
                break
        if not leaving:
            del self._leaving[sheet]
            self._close(sheet)

    def _close(self, sheet: Sheet) -> None:
        """Drop a sheet that is empty and that no fence leads to."""
        needed = sheet.size or sheet in self._leaving or self._fences.leads_to(sheet)
        if not needed and sheet in self._sheets:
            self._sheets.remove(sheet)


def _gathered(
    columns: Mapping[int, Sequence[Any]], rows: Sequence[int]
) -> dict[int, Sequence[Any]]:
    """Columns with these rows alone; two holes often have the same column."""
    gathered: dict[int, list[Any]] = {}
    for column in columns.values():
        if id(column) not in gathered:
            gathered[id(column)] = [column[row] for row in rows]
    return {position: gathered[id(column)] for position, column in columns.items()}


def _joined(parts: Iterable[int]) -> int:
    """One bitmap of those of sheets, in time that grows with their number, not its square."""
    return int.from_bytes(
        b"".join([bits.to_bytes(_SHEET_BYTES, "little") for bits in parts]), "little"
    )
