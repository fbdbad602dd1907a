"""Measure one engine on all workloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.flow import TIMEOUT
from benchmarks.routing.changes import measure_changes
from benchmarks.routing.engine import ORACLE, Engine, load_dtds
from benchmarks.routing.findings import Findings, OneByOneCost, Plan, query_label
from benchmarks.routing.one_by_one import OneByOne, check_agreement
from benchmarks.routing.rounds import Cost, Task, measure, split_rounds
from benchmarks.routing.workload import Workload, flights, nitf, voevents
from benchmarks.workloads.flights import TABLE_1
from benchmarks.workloads.mix import HARDER, STANDARD
from benchmarks.workloads.voevent_packets import NoData

#: For the reference engine.
_ORACLES_PART = 200
#: Matched in turn, one after each change.
_AFTER_CHANGES = 200


def measure_content(context: BenchmarkContext, plan: Plan) -> Findings:
    """Workloads without data are omitted."""
    return _Measurement(context, plan).findings


class _Measurement:
    def __init__(self, context: BenchmarkContext, plan: Plan) -> None:
        self._lab = context
        self._plan = plan
        self._dtds = load_dtds()
        self.findings = Findings(plan)
        self._measure_mixes(flights(plan.documents))
        try:
            self._measure_mixes(voevents(plan.documents))
            self.findings.memory_report = self._measure_memory()
        except NoData as reason:
            self.findings.missing.append(str(reason))
        try:
            self._measure_nitf(nitf(plan.news))
        except NoData as reason:
            self.findings.missing.append(str(reason))

    def _measure_mixes(self, workload: Workload) -> None:
        self._measure_standard(workload)
        self._lab.report_progress(f"{workload.name}: reading queries of the harder mix")
        texts = workload.queries(self._plan.compared, HARDER)
        _, cost = self._measure_single(workload, texts, f"{len(texts):,} harder queries")
        self.findings.costs.append(cost)

    def _measure_standard(self, workload: Workload) -> None:
        """Measure all numbers of queries, the reference engine, and all queries one by one."""
        plan, findings = self._plan, self.findings
        findings.sizes[workload.name] = workload.size
        engines = []
        tasks = [Task("no query", Engine(plan.engine, self._dtds).match, 0)]
        if workload.name == "flights":
            engine, _ = self._make_engine(workload, TABLE_1)
            tasks.append(Task("the four queries of Table 1", engine.match, len(TABLE_1)))
        for count in plan.queries:
            self._lab.report_progress(f"{workload.name}: reading {count:,} queries")
            texts = workload.queries(count + plan.changes, STANDARD)
            engine, numbers = self._make_engine(workload, texts[:count])
            tasks.append(Task(query_label(count), engine.match, count))
            engines.append((engine, numbers, texts[:count]))
            if count == plan.compared:
                alone = OneByOne(texts[:count], workload.namespaces, self._dtds)
                tasks.append(Task("one by one", alone.match, count, most=plan.sample))
        tasks.append(self._make_oracle_task(workload))
        slices = split_rounds(workload.documents, plan.rounds)
        costs = measure(workload.name, tasks, slices, self._lab.report_progress)
        findings.costs += costs
        found = {cost.label: cost for cost in costs}
        findings.one_by_one.append(
            OneByOneCost(found[query_label(plan.compared)], found["one by one"])
        )
        for each, theirs, queries in engines:
            self._check_agreement(workload, each, theirs, queries, query_label(len(queries)))
        # The last engine and texts have the most queries.
        self._lab.report_progress(f"{workload.name}: adding and removing queries")
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

    def _make_oracle_task(self, workload: Workload) -> Task:
        queries = self._plan.oracle
        oracle = Engine(ORACLE, self._dtds)
        oracle.subscribe(workload.queries(queries, STANDARD), workload.namespaces)
        label = f"reference engine, {queries} queries"
        return Task(label, oracle.match, queries, most=_ORACLES_PART)

    def _measure_nitf(self, workload: Workload) -> None:
        """Common in published XML filter measurements."""
        self.findings.sizes[workload.name] = workload.size
        for count in self._plan.queries:
            if count <= self._plan.compared:
                self._lab.report_progress(f"{workload.name}: reading {count:,} queries")
                texts = workload.queries(count, STANDARD)
                self.findings.costs += self._measure_single(workload, texts, query_label(count))

    def _measure_single(self, workload: Workload, texts: Sequence[str], label: str) -> list[Cost]:
        engine, numbers = self._make_engine(workload, texts)
        slices = split_rounds(workload.documents, self._plan.rounds)
        task = Task(label, engine.match, len(texts))
        costs = measure(workload.name, [task], slices, self._lab.report_progress)
        self._check_agreement(workload, engine, numbers, texts, label)
        return costs

    def _make_engine(self, workload: Workload, texts: Sequence[str]) -> tuple[Engine, list[int]]:
        engine = Engine(self._plan.engine, self._dtds)
        return engine, engine.subscribe(texts, workload.namespaces)

    def _check_agreement(
        self,
        workload: Workload,
        engine: Engine,
        numbers: Sequence[int],
        texts: Sequence[str],
        label: str,
    ) -> None:
        self._lab.report_progress(f"{workload.name}: comparing {label} with lxml")
        documents = workload.documents[:: max(1, len(workload.documents) // self._plan.agreeing)]
        self.findings.agreed[f"{workload.name}, {label}"] = check_agreement(
            engine, numbers, texts, workload.namespaces, documents, self._dtds
        )

    def _measure_memory(self) -> dict[str, Any]:
        """Measure in a process of its own, with most queries."""
        self._lab.report_progress("VOEvents: memory of the queries")
        plan = self._plan
        task = {"engine": plan.engine, "queries": plan.queries[-1], "packets": plan.packets}
        actor = Actor(self._lab.children, "hold_queries", task)
        held = actor.wait_for("done", 2 * TIMEOUT)
        actor.stop()
        return held
