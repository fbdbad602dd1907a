"""Random values of annotated msgspec types: the corpus of each registered message."""

from __future__ import annotations

import functools
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

_MOST_ITEMS = 3
_TEXTS = ("", "a", "asdi.>", "alps.c1/n", "0123456789abcdef", "//x[y > 1]", "ü\u202e\0")


@functools.cache
def _types_of(kind: type[msgspec.Struct]) -> list[inspect.Type]:
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    return [field.type for field in found.fields]


class RandomValues:
    """Values that fit the annotations, mostly. Checks between fields may still refuse them."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def message_of(self, kind: type[msgspec.Struct]) -> list[Any]:
        """Return the fields of a message."""
        return [self._draw(each) for each in _types_of(kind)]

    def _draw(self, kind: inspect.Type) -> Any:
        random = self._random
        match kind:
            case inspect.IntType(ge=least, le=most):
                low, high = least or 0, (2**63 if most is None else most)
                return random.choice(
                    [low, high, random.randint(low, high), low + random.getrandbits(3)]
                )
            case inspect.FloatType(ge=least):
                return (least or 0.0) + random.random()
            case inspect.BoolType():
                return random.random() < 0.5
            case inspect.NoneType():
                return None
            case inspect.BytesType(min_length=least):
                return random.randbytes(max(least or 0, random.randrange(20)))
            case inspect.StrType():
                return random.choice(_TEXTS)
            case inspect.LiteralType(values=values):
                return random.choice(values)
            case inspect.TupleType(item_types=items):
                return [self._draw(each) for each in items]
            case (
                inspect.VarTupleType(item_type=item, min_length=least)
                | inspect.ListType(item_type=item, min_length=least)
                | inspect.SetType(item_type=item, min_length=least)
                | inspect.FrozenSetType(item_type=item, min_length=least)
            ):
                count = max(least or 0, random.randrange(_MOST_ITEMS))
                return [self._draw(item) for _ in range(count)]
            case inspect.DictType(key_type=key, value_type=value):
                return {
                    self._draw(key): self._draw(value) for _ in range(random.randrange(_MOST_ITEMS))
                }
            case inspect.UnionType(types=types):
                return self._draw(random.choice(types))
            case inspect.Metadata(type=inner):
                return self._draw(inner)
            case inspect.StructType(cls=cls):
                return self.message_of(cls)
            case _:
                return random.choice([None, 0, -1, "text", b"bytes", [], ["a", [1, None]]])
