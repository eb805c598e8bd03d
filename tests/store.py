"""A warehouse in memory: what the generated scripts do, on the plain-Python oracle."""

from __future__ import annotations

from collections import Counter
from typing import Any

from deltafold.compiler.algebra import SIGN, Ref, State
from deltafold.compiler.plan import SHOWN, ApplyBag, Merge, Plan, Replace, ViewPlan
from deltafold.randomdata import Batch, apply_batch
from oracle import Row, bag, evaluate, value


class Store:
    """A warehouse in memory: what the generated scripts do, step by step, on the oracle."""

    def __init__(self, plan: Plan, tables: dict[str, list[tuple[Any, ...]]]) -> None:
        self.plan = plan
        self.tables = tables
        self.views: dict[str, list[Row]] = {}
        self.relations: dict[Ref, list[Row]] = {}  # of the last batch: changes, steps, deltas
        for view in plan.maintained:
            self.views[view.name] = evaluate(view.from_parent or view.initial, self.current())

    def rows(self, name: str) -> list[Row]:
        table = self.plan.catalog.table(name)
        assert table is not None
        return [dict(zip(table.names, row, strict=True)) for row in self.tables.get(name, [])]

    def current(self) -> dict[Ref, list[Row]]:
        tables = {Ref(name): self.rows(name) for name in self.plan.tables}
        shown = {name: [row for row in rows if row.get(SHOWN, True)] for name, rows in self.views.items()}
        stored = {Ref(name, State.STORED): rows for name, rows in self.views.items()}
        return tables | stored | {Ref(name): rows for name, rows in shown.items()}

    def expected(self) -> dict[str, list[Row]]:
        """Every view from scratch."""
        relations = {Ref(name): self.rows(name) for name in self.plan.tables}
        for view in self.plan.views:
            relations[Ref(view.name)] = evaluate(view.definition, relations)
        return {view.name: relations[Ref(view.name)] for view in self.plan.views}

    def apply(self, batch: Batch) -> None:
        self.relations = relations = {}
        for name in self.plan.tables:
            table = self.plan.catalog.table(name)
            assert table is not None
            old = self.rows(name)
            changed = [(c.before, -1) for c in batch if c.table == name and c.before is not None]
            changed += [(c.after, 1) for c in batch if c.table == name and c.after is not None]
            changes = [dict(zip(table.names, row, strict=True)) | {SIGN: sign} for row, sign in changed]
            self._publish(relations, name, old, changes)
        refreshed: dict[str, list[Row]] = {}
        for view in self.plan.maintained:
            stored = self.views[view.name]
            relations[Ref(view.name, State.STORED)] = stored
            for step in view.steps:
                relations[Ref(step.name, State.STEP)] = evaluate(step.rel, relations)
            delta = relations[Ref(view.steps[-1].name, State.STEP)]
            relations[Ref(view.name, State.DELTA)] = delta
            if view.changes:
                shown = [{c.name: row[c.name] for c in view.columns} for row in stored if row.get(SHOWN, True)]
                self._publish(relations, view.name, shown, evaluate(view.changes.rel, relations))
            refreshed[view.name] = refresh(view, stored, delta)
        after = apply_batch(self.tables, batch)
        assert after is not None
        self.tables, self.views = after, refreshed

    def _publish(self, relations: dict[Ref, list[Row]], name: str, old: list[Row], changes: list[Row]) -> None:
        relations[Ref(name, State.OLD)] = old
        relations[Ref(name, State.CHANGES)] = changes
        relations[Ref(name, State.SIGNED)] = [row | {SIGN: 1} for row in old] + changes
        relations[Ref(name, State.NEW)] = after(old, changes)


def unequal(store: Store) -> str:
    """The first view that does not hold what its definition gives, with both; empty if there is none."""
    for name, expected in store.expected().items():
        view = store.plan.view(name)
        assert view is not None
        public = tuple(column.name for column in view.columns)
        shown = [row for row in store.views[name] if row.get(SHOWN, True)]
        has, should = bag(shown, public), bag(expected, public)
        if has != should:
            return f"{name} ({view.strategy}): too many {has - should}, missing {should - has}"
    return ""


def after(old: list[Row], changes: list[Row]) -> list[Row]:
    """The bag that is left when signs are added up."""
    columns = tuple((old or changes or [{}])[0])
    names = tuple(name for name in columns if name != SIGN)
    counts = Counter(tuple(row[name] for name in names) for row in old)
    for row in changes:
        counts[tuple(row[name] for name in names)] += row[SIGN]
    assert all(count >= 0 for count in counts.values())
    return [dict(zip(names, row, strict=True)) for row in counts.elements()]


def refresh(view: ViewPlan, stored: list[Row], delta: list[Row]) -> list[Row]:
    """What the runtime's merge and apply_bag do."""
    match view.refresh:
        case ApplyBag(columns):
            counts = Counter(tuple(row[c] for c in columns) for row in stored)
            for row in delta:
                counts[tuple(row[c] for c in columns)] += row[SIGN]
            assert all(count >= 0 for count in counts.values())
            return [dict(zip(columns, row, strict=True)) for row in counts.elements()]
        case Merge(key, count, assignments):
            by_key = {tuple(row[k] for k in key): row for row in stored}
            for change in delta:
                group = tuple(change[k] for k in key)
                old = by_key.get(group)
                env = {f"sd.{n}": v for n, v in change.items()} | {f"old.{n}": v for n, v in (old or {}).items()}
                left = (old[count] if old else 0) + (change[count] or 0)
                assert left >= 0
                if left == 0 and key:
                    by_key.pop(group, None)
                    continue
                chosen = {a.column: a.update if old else a.insert for a in assignments}
                by_key[group] = dict(zip(key, group, strict=True)) | {c: value(e, env) for c, e in chosen.items()}
            return list(by_key.values())
        case Replace():
            return delta
