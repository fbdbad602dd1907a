"""One engine, all workloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.harness.actor import Actor
from benchmarks.harness.flow import PATIENCE
from benchmarks.harness.lab import Lab
from benchmarks.routing.changes import measure_changes
from benchmarks.routing.engine import ORACLE, Engine, known_dtds
from benchmarks.routing.findings import Findings, OneByOneCost, Plan, label_of
from benchmarks.routing.one_by_one import OneByOne, check_agreement
from benchmarks.routing.rounds import Cost, Task, measure, sliced
from benchmarks.routing.workload import Workload, flights, nitf, voevents
from benchmarks.workloads.flights import TABLE_1
from benchmarks.workloads.mix import HARDER, STANDARD
from benchmarks.workloads.voevent_packets import NoData

#: Events of a round that the reference engine is given.
_ORACLES_PART = 200
#: Events that single changes are followed by, round and round.
_AFTER_CHANGES = 200


def measured(lab: Lab, plan: Plan) -> Findings:
    """What is found by a plan; workloads whose data is not here are left out."""
    return _Measuring(lab, plan).findings


class _Measuring:
    def __init__(self, lab: Lab, plan: Plan) -> None:
        self._lab = lab
        self._plan = plan
        self._dtds = known_dtds()
        self.findings = Findings(plan)
        self._mixes(flights(plan.documents))
        try:
            self._mixes(voevents(plan.documents))
            self.findings.held = self._held()
        except NoData as reason:
            self.findings.missing.append(str(reason))
        try:
            self._published(nitf(plan.news))
        except NoData as reason:
            self.findings.missing.append(str(reason))

    def _mixes(self, workload: Workload) -> None:
        self._standard(workload)
        self._lab.say(f"{workload.name}: reading queries of the harder mix")
        texts = workload.queries(self._plan.compared, HARDER)
        _, cost = self._single(workload, texts, f"{len(texts):,} harder queries")
        self.findings.costs.append(cost)

    def _standard(self, workload: Workload) -> None:
        """The numbers of queries side by side, with the oracle, and all queries one by one."""
        plan, findings = self._plan, self.findings
        findings.sizes[workload.name] = workload.size
        engines = []
        tasks = [Task("no query", Engine(plan.engine, self._dtds).match, 0)]
        if workload.name == "flights":
            engine, _ = self._engine(workload, TABLE_1)
            tasks.append(Task("the four queries of Table 1", engine.match, len(TABLE_1)))
        for count in plan.queries:
            self._lab.say(f"{workload.name}: reading {count:,} queries")
            # The further ones are added and removed later.
            texts = workload.queries(count + plan.changes, STANDARD)
            engine, numbers = self._engine(workload, texts[:count])
            tasks.append(Task(label_of(count), engine.match, count))
            engines.append((engine, numbers, texts[:count]))
            if count == plan.compared:
                alone = OneByOne(texts[:count], workload.namespaces, self._dtds)
                tasks.append(Task("one by one", alone.match, count, most=plan.sample))
        tasks.append(self._oracle(workload))
        slices = sliced(workload.documents, plan.rounds)
        costs = measure(workload.name, tasks, slices, self._lab.say)
        findings.costs += costs
        found = {cost.label: cost for cost in costs}
        findings.one_by_one.append(
            OneByOneCost(found[label_of(plan.compared)], found["one by one"])
        )
        for each, theirs, queries in engines:
            self._agree(workload, each, theirs, queries, label_of(len(queries)))
        # The engine and the texts of the most queries are the last.
        self._lab.say(f"{workload.name}: adding and removing queries")
        findings.changes.append(
            measure_changes(
                workload.name,
                engine,
                count,
                texts[count:],
                workload.namespaces,
                slices[0][:_AFTER_CHANGES],
            )
        )

    def _oracle(self, workload: Workload) -> Task:
        queries = self._plan.oracle
        oracle = Engine(ORACLE, self._dtds)
        oracle.subscribe(workload.queries(queries, STANDARD), workload.namespaces)
        label = f"reference engine, {queries} queries"
        return Task(label, oracle.match, queries, most=_ORACLES_PART)

    def _published(self, workload: Workload) -> None:
        """The workload that measurements of XML filters have in common."""
        self.findings.sizes[workload.name] = workload.size
        for count in self._plan.queries:
            if count <= self._plan.compared:
                self._lab.say(f"{workload.name}: reading {count:,} queries")
                texts = workload.queries(count, STANDARD)
                self.findings.costs += self._single(workload, texts, label_of(count))

    def _single(self, workload: Workload, texts: Sequence[str], label: str) -> list[Cost]:
        """The costs of the bare parse and of the engine with these queries."""
        engine, numbers = self._engine(workload, texts)
        slices = sliced(workload.documents, self._plan.rounds)
        task = Task(label, engine.match, len(texts))
        costs = measure(workload.name, [task], slices, self._lab.say)
        self._agree(workload, engine, numbers, texts, label)
        return costs

    def _engine(self, workload: Workload, texts: Sequence[str]) -> tuple[Engine, list[int]]:
        engine = Engine(self._plan.engine, self._dtds)
        return engine, engine.subscribe(texts, workload.namespaces)

    def _agree(
        self,
        workload: Workload,
        engine: Engine,
        numbers: Sequence[int],
        texts: Sequence[str],
        label: str,
    ) -> None:
        self._lab.say(f"{workload.name}: comparing {label} with lxml")
        documents = workload.documents[:: max(1, len(workload.documents) // self._plan.agreeing)]
        self.findings.agreed[f"{workload.name}, {label}"] = check_agreement(
            engine, numbers, texts, workload.namespaces, documents, self._dtds
        )

    def _held(self) -> dict[str, Any]:
        """Memory, and the longest match, of an engine with most queries, in its own process."""
        self._lab.say("VOEvents: memory of the queries")
        plan = self._plan
        task = {"engine": plan.engine, "queries": plan.queries[-1], "packets": plan.packets}
        actor = Actor(self._lab.children, "hold_queries", task)
        held = actor.hear("done", 2 * PATIENCE)
        actor.end()
        return held
