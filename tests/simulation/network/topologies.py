from __future__ import annotations

from random import Random

from broker.testing.simulated_network import NetworkWorld

Edge = tuple[str, str]


def one_cluster(world: NetworkWorld, nodes: int) -> list[Edge]:
    names = [f"n{number}" for number in range(nodes)]
    world.add(names[0], "c")
    for name in names[1:]:
        world.add(name, "c", join=names[:1])
    return [(one, other) for one in names for other in names if one < other]


def line(world: NetworkWorld, nodes: int) -> list[Edge]:
    edges: list[Edge] = []
    last = ""
    number = cluster = 0
    while number < nodes:
        size = min(world.random.choice((1, 2)), nodes - number)
        names = [f"n{number + each}" for each in range(size)]
        cluster += 1
        world.add(names[0], f"c{cluster}", gateways=[last] if last else [])
        if last:
            edges.append((last, names[0]))
        for name in names[1:]:
            world.add(name, f"c{cluster}", join=names[:1])
            edges.append((names[0], name))
        last, number = names[-1], number + size
    return edges


def two_gateways(world: NetworkWorld, nodes: int) -> list[Edge]:
    half = max(nodes // 2, 2)
    left = [f"n{number}" for number in range(half)]
    right = [f"n{number}" for number in range(half, max(nodes, 2 * half))]
    for name in left:
        world.add(name, "left", join=[each for each in left[:1] if each != name])
    for number, name in enumerate(right):
        gateways = [left[number]] if number < 2 else []
        world.add(
            name, "right", join=[each for each in right[:1] if each != name], gateways=gateways
        )
    inside = [(one, other) for side in (left, right) for one in side for other in side]
    return [edge for edge in inside if edge[0] < edge[1]] + [*zip(left[:2], right[:2], strict=True)]


SHAPES = (one_cluster, line, two_gateways)


class RandomFaults:
    def __init__(self, world: NetworkWorld, edges: list[Edge], killable: list[str]) -> None:
        self._world = world
        self._random = Random(world.random.random())
        self._edges = edges
        self._mortal = killable
        self._refused: set[Edge] = set()
        self.log: list[str] = []

    def inject_one(self) -> None:
        world, random = self._world, self._random
        edge = random.choice(self._edges)
        event = random.randrange(6)
        if event == 0:
            self._record(f"cut {edge}")
            world.cut(*edge)
        elif event == 1 and not self._refused:
            self._record(f"refuse {edge}")
            self._refused.add(edge)
            world.cut(*edge, refuse=True)
        elif event == 2 and self._refused:
            edge = self._refused.pop()
            self._record(f"heal {edge}")
            world.heal(*edge)
        elif event == 3:
            world.delay(*edge, random.choice((0.0, 0.001, 0.05, 0.5)), random.choice((0.0, 0.2)))
        elif event == 4 and self._mortal:
            name = random.choice(self._mortal)
            self._record(f"kill or start {name}")
            world.kill(name) if name in world.running else world.start(name)

    def repair_all(self) -> None:
        for edge in self._refused:
            self._world.heal(*edge)
        for name in self._mortal:
            if name not in self._world.running:
                self._world.start(name)
        for edge in self._edges:
            self._world.delay(*edge, 0.001, 0.001)

    def _record(self, event: str) -> None:
        self.log.append(f"{self._world.clock.seconds():.3f} {event}")
