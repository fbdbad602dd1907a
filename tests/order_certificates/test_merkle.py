"""Merkle trees: published vectors, paths, and second preimages."""

from __future__ import annotations

from hashlib import sha256
from random import Random

import pytest

from broker.order_certificates.merkle import (
    EMPTY_ROOT,
    hash_leaf,
    hash_node,
    path_of,
    root_by_path,
    root_of,
)
from tests.seeds import seeds

#: Inputs and roots of the reference implementation of Certificate Transparency (RFC 6962).
INPUTS = [
    bytes.fromhex(text)
    for text in (
        *("", "00", "10", "2021", "3031", "40414243", "5051525354555657"),
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


def test_roots_are_those_of_the_reference_implementation() -> None:
    hashes = [hash_leaf(data) for data in INPUTS]
    assert [root_of(hashes[: count + 1]).hex() for count in range(8)] == list(ROOTS)
    assert root_of([]) == EMPTY_ROOT == sha256().digest()


@pytest.mark.parametrize("count", [*range(1, 34), 255, 256, 257])
def test_each_leaf_has_a_path_to_the_root(count: int) -> None:
    hashes = [hash_leaf(str(number).encode()) for number in range(count)]
    root = root_of(hashes)
    for index, leaf in enumerate(hashes):
        assert root_by_path(leaf, index, count, path_of(hashes, index)) == root


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_a_path_shows_no_other_leaf_index_or_count(seed: int) -> None:
    random = Random(seed)
    count = random.randrange(2, 70)
    hashes = [hash_leaf(random.randbytes(4)) for _ in range(count)]
    root, index = root_of(hashes), random.randrange(count)
    path = path_of(hashes, index)

    def is_shown(leaf: bytes, index: int, count: int, path: list[bytes]) -> bool:
        try:
            return root_by_path(leaf, index, count, path) == root
        except ValueError:
            return False

    other = random.choice([each for each in range(count) if each != index])
    assert is_shown(hashes[index], index, count, path)
    assert not is_shown(hashes[other], index, count, path)
    assert not is_shown(hashes[index], other, count, path)
    assert not is_shown(hashes[index], index, count, path[:-1])
    assert not is_shown(hashes[index], index, count, [*path, random.choice(hashes)])
    assert not is_shown(hashes[index], -1, count, path)
    assert not is_shown(hashes[index], count, count, path)
    place = random.randrange(len(path))
    for changed in (random.randbytes(32), path[place][:-1], b""):
        assert not is_shown(
            hashes[index], index, count, [*path[:place], changed, *path[place + 1 :]]
        )


def test_an_inner_node_does_not_pass_for_a_leaf() -> None:
    hashes = [hash_leaf(data) for data in INPUTS[:4]]
    left, right = hash_node(*hashes[:2]), hash_node(*hashes[2:])
    assert hash_node(left, right) == root_of(hashes)
    # The bytes of two hashes, given as one leaf, have another prefix.
    assert root_of([hash_leaf(left + right)]) != root_of(hashes)
    assert hash_leaf(hashes[0] + hashes[1]) != left


def test_an_odd_leaf_is_not_doubled() -> None:
    hashes = [hash_leaf(data) for data in INPUTS[:3]]
    assert root_of(hashes) != root_of([*hashes, hashes[-1]])


def test_an_index_outside_has_no_path() -> None:
    for index in (-1, 3):
        with pytest.raises(IndexError):
            path_of([hash_leaf(data) for data in INPUTS[:3]], index)
