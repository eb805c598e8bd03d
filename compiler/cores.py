"""Splits a view over sources: a core that is kept from the sources' changes, and the rest, which reads the core.

The core of `Project[exprs] Select[conditions] (t1 ⋈ t2 ⋈ …)` is the join of the tables on equality of their columns,
where those conditions hold that concern one table and are simple enough to be tested outside of Spark; it keeps the
columns that the rest needs. The rest is the same projection over the remaining conditions over a scan of the core,
which to all later stages is a base table like any other, with one difference: nobody but `deltafold source run` changes
it. So GROUP BY, PIVOT, the lattice and whatever else the compiler maintains work on views over sources unchanged.

Views with the same join, conditions and consistency share one core, so that the lattice sees that they are related.
A table's primary key is among the columns that a node carries, though the core need not keep it: it tells
modifications from other changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

import networkx as nx
from sqlglot import exp

from . import scalar
from .algebra import (
    Column,
    GroupBy,
    Item,
    Join,
    JoinKind,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    State,
    col,
    scans,
    with_inputs,
)
from .bind import BoundView
from .catalog import Catalog, Source, Table, find_name
from .joingraph import Core, Link, Node, Output, Pairs
from .plan import ViewCore
from .source import Diagnostic, InputError

SOURCE_TYPES = ("postgres", "warehouse")
CONSISTENCIES = ("complete", "strong", "convergent")
_EXACT = ("tinyint", "smallint", "int", "bigint", "decimal")
_ORDERED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def split_views(
    views: tuple[BoundView, ...], catalog: Catalog
) -> tuple[tuple[BoundView, ...], Catalog, tuple[ViewCore, ...], list[Diagnostic]]:
    """The views over their cores, the catalog with a table for each core, the cores, and what is wrong."""
    errors = _check_sources(catalog)
    groups: dict[Hashable, list[_Join]] = {}
    for view in views:
        try:
            join = _join_of(view, catalog)
        except InputError as error:
            errors += error.diagnostics
            continue
        if join is not None:
            groups.setdefault(join.shape, []).append(join)
    taken = {table.name.casefold() for table in catalog.tables} | {view.name.casefold() for view in views}
    cores = []
    over: dict[str, Rel] = {}
    for joins in groups.values():
        core = _core(joins, catalog, taken)
        cores.append(core)
        over |= {join.view.name: _above(join, core) for join in joins}
    split = tuple(replace(view, rel=over.get(view.name, view.rel)) for view in views)
    tables = catalog.tables + tuple(core.table for core in cores)
    return split, replace(catalog, tables=tables), tuple(cores), errors


def _check_sources(catalog: Catalog) -> list[Diagnostic]:
    errors = []
    owner: dict[str, str] = {}
    for source in catalog.sources:
        if source.type.lower() not in SOURCE_TYPES:
            message = f"there is no type {source.type} of source"
            errors.append(Diagnostic("DF0801", message, source.span, f"TYPE {' or '.join(SOURCE_TYPES)}"))
        for name in source.tables:
            if catalog.table(name) is None:
                message = f"source {source.name} names {name}, which is not declared"
                errors.append(Diagnostic("DF0801", message, source.span, f"declare it: CREATE TABLE {name} (…)"))
            elif owner.setdefault(name.casefold(), source.name) != source.name:
                message = f"table {name} is of two sources, {owner[name.casefold()]} and {source.name}"
                errors.append(Diagnostic("DF0801", message, source.span, "name it in one of them"))
    return errors


def _consistency(view: BoundView, catalog: Catalog) -> str:
    pragmas = [pragma for pragma in view.statement.pragmas if pragma.name.lower() == "consistency"]
    for pragma in pragmas:
        if (pragma.value or "").lower() not in CONSISTENCIES:
            message = f"consistency {pragma.value or ''} is not known"
            raise InputError([Diagnostic("DF0802", message, pragma.span, f"one of {', '.join(CONSISTENCIES)}")])
        if not any(_source_of(scan, catalog) for scan in scans(view.rel)):
            message = f"{view.name} reads no table of a source: it is consistent after every batch"
            raise InputError([Diagnostic("DF0802", message, pragma.span, "leave the line out")])
    return (pragmas[-1].value or "").lower() if pragmas else CONSISTENCIES[0]


def _source_of(scan: Scan, catalog: Catalog) -> Source | None:
    folded = scan.ref.name.casefold()
    return next((s for s in catalog.sources if any(t.casefold() == folded for t in s.tables)), None)


def _join_of(view: BoundView, catalog: Catalog) -> _Join | None:
    """The join of source tables that a view has; None where it reads none."""
    consistency = _consistency(view, catalog)
    leaves = scans(view.rel)
    if not any(_source_of(scan, catalog) for scan in leaves):
        return None
    for scan in leaves:
        if _source_of(scan, catalog) is None:
            message = f"{view.name} reads {scan.ref.name} beside tables of sources, and it is of none"
            remedy = "name it in a CREATE SOURCE, or join it in a view of its own over this one"
            raise InputError([Diagnostic("DF0803", message, view.statement.name_span, remedy)])
    found: list[_Flat] = []

    def note(rel: Rel, flat: _Flat) -> Rel:
        found.append(flat)
        return rel

    _visit(view.rel, note)
    if len(found) > 1:
        message = f"{view.name} puts {len(found)} joins of source tables together by more than inner joins"
        remedy = "make each of them a view of its own, and this one a view over those"
        raise InputError([Diagnostic("DF0804", message, view.statement.name_span, remedy)])
    return _analysed(view, found[0], consistency, catalog)


def _visit(rel: Rel, put: Callable[[Rel, _Flat], Rel]) -> Rel:
    """The relation with every largest select-project-join in it replaced."""
    flat = _flatten(rel, {})
    if flat is None:
        return with_inputs(rel, tuple(_visit(_narrowed(rel, child), put) for child in rel.inputs))
    return put(rel, flat)


def _narrowed(parent: Rel, child: Rel) -> Rel:
    """What a GROUP BY reads of its input, so that the core keeps no more."""
    if not isinstance(parent, GroupBy):
        return child
    arguments = [scalar.columns_of(part) for measure in parent.measures for part in measure.arguments]
    needed = frozenset(parent.keys).union(*arguments)
    items = tuple(Item(name, col(name)) for name in child.names if name in needed)
    return Project(child, items) if items else child


# --- a select-project-join as conditions and expressions over the columns of its tables -------------------------------


@dataclass(frozen=True)
class _Flat:
    leaves: tuple[tuple[str, Scan], ...]  # node name, scan
    conditions: tuple[exp.Expr, ...]  # over columns named `node.column`
    columns: Mapping[str, exp.Expr]  # output name to expression over the same


def _flatten(rel: Rel, taken: dict[str, int]) -> _Flat | None:
    match rel:
        case Scan(Ref(name, State.CURRENT), _):
            taken[name] = taken.get(name, 0) + 1
            node = name if taken[name] == 1 else f"{name}_{taken[name]}"
            return _Flat(((node, rel),), (), {column: col(f"{node}.{column}") for column in rel.names})
        case Select(input, condition):
            flat = _flatten(input, taken)
            return flat and replace(flat, conditions=flat.conditions + _over(condition, flat))
        case Project(input, items):
            flat = _flatten(input, taken)
            return flat and replace(
                flat, columns={item.name: scalar.substitute(item.expression, flat.columns) for item in items}
            )
        case Join(left, right, condition, JoinKind.INNER):
            first, second = _flatten(left, taken), _flatten(right, taken)
            if first is None or second is None:
                return None
            both = _Flat(
                first.leaves + second.leaves,
                first.conditions + second.conditions,
                {**first.columns, **second.columns},
            )
            return replace(both, conditions=both.conditions + _over(condition, both))
    return None


def _over(condition: exp.Expr, flat: _Flat) -> tuple[exp.Expr, ...]:
    return scalar.conjuncts(scalar.substitute(condition, flat.columns))


@dataclass(frozen=True)
class _Join:
    """A view's join of source tables: what is joined, what is tested at once, what is left for Spark."""

    view: BoundView
    consistency: str
    tables: Mapping[str, Table]  # by node
    links: tuple[Link, ...]
    filters: Mapping[str, tuple[exp.Expr, ...]]  # by node, over the table's own columns
    rest: tuple[exp.Expr, ...]
    kept: tuple[str, ...]  # the columns needed above, as `node.column`

    @property
    def shape(self) -> Hashable:
        """Equal for joins that can share a core: they differ in the columns that they keep."""
        equal = {tuple(sorted(((k.left, a), (k.right, b)))) for k in self.links for a, b in k.pairs}
        tests = {(node, scalar.text(test)) for node, tests in self.filters.items() for test in tests}
        nodes = {(node, table.name) for node, table in self.tables.items()}
        return frozenset(nodes), frozenset(equal), frozenset(tests), self.consistency


def _analysed(view: BoundView, flat: _Flat, consistency: str, catalog: Catalog) -> _Join:
    tables = {node: _table(scan, catalog) for node, scan in flat.leaves}
    types = {f"{node}.{column.name}": column for node, table in tables.items() for column in table.columns}
    place = {f"{node}.{c}": (node, c) for node, table in tables.items() for c in table.names}
    equal: dict[tuple[str, str], Pairs] = {}
    filters: dict[str, tuple[exp.Expr, ...]] = {}
    rest: list[exp.Expr] = []
    for condition in flat.conditions:
        owners = {place[column][0] for column in scalar.columns_of(condition)}
        linked = _linked(condition, types)
        if linked is not None and len(owners) == 2:
            (a, x), (b, y) = place[linked[0]], place[linked[1]]
            equal[a, b] = (*equal.get((a, b), ()), (x, y))
        elif len(owners) == 1 and is_simple(condition, types):
            (owner,) = owners
            local = scalar.rename(condition, {column: place[column][1] for column in scalar.columns_of(condition)})
            filters[owner] = (*filters.get(owner, ()), local)
        elif condition != scalar.TRUE:
            rest.append(condition)
    links = tuple(Link(a, b, pairs) for (a, b), pairs in equal.items())
    _require_connected(view, list(tables), links)
    needed = [column for part in (*flat.columns.values(), *rest) for column in sorted(scalar.columns_of(part))]
    kept = tuple(dict.fromkeys(needed)) or (next(iter(place)),)
    return _Join(view, consistency, tables, links, filters, tuple(rest), kept)


def _core(joins: list[_Join], catalog: Catalog, taken: set[str]) -> ViewCore:
    """One core for joins of one shape: it keeps what any of them needs."""
    first = joins[0]
    name = f"core_{first.view.name}"
    while name.casefold() in taken:
        name += "_"
    taken.add(name.casefold())
    kept = list(dict.fromkeys(column for join in joins for column in join.kept))
    place = {f"{node}.{c.name}": (node, c) for node, table in first.tables.items() for c in table.columns}
    shown = {node: {place[column][1].name for column in kept if place[column][0] == node} for node in first.tables}
    nodes = tuple(_node(first, node, shown[node], catalog) for node in first.tables)
    names = _names([(place[column][0], place[column][1].name) for column in kept])
    outputs = tuple(Output(given, *at) for at, given in names.items())
    columns = tuple(replace(place[column][1], name=output.name) for column, output in zip(kept, outputs, strict=True))
    core = Core(name, nodes, first.links, outputs, _references(nodes, first.tables, first.links))
    views = tuple(join.view.name for join in joins)
    return ViewCore(views, core, Table(name, columns, first.view.statement.name_span), first.consistency)


def _node(join: _Join, name: str, shown: set[str], catalog: Catalog) -> Node:
    table = join.tables[name]
    used = set(shown)
    for link in join.links:
        for a, b in link.pairs:
            used |= {column for node, column in ((link.left, a), (link.right, b)) if node == name}
    tests = join.filters.get(name, ())
    used |= {column for test in tests for column in scalar.columns_of(test)}
    used |= set(table.keys[0]) if table.keys else set()
    source = _source_of(Scan(Ref(table.name), table.columns), catalog)
    assert source is not None
    keys = tuple(key for key in table.keys[:1] if _all_required(table, key))
    return Node(name, table.name, source.name, tuple(c for c in table.names if c in used), keys, tests)


def _above(join: _Join, view: ViewCore) -> Rel:
    """The view with its join replaced by a scan of the core."""
    shown = {f"{output.node}.{output.column}": col(output.name) for output in view.core.outputs}

    def over_core(rel: Rel, flat: _Flat) -> Rel:
        above: Rel = Scan(Ref(view.core.name), view.table.columns)
        if join.rest:
            tests = tuple(scalar.substitute(condition, shown) for condition in join.rest)
            above = Select(above, scalar.canonical(scalar.conjunction(tests)))
        items = tuple(Item(n, scalar.canonical(scalar.substitute(flat.columns[n], shown))) for n in rel.names)
        return Project(above, items)

    return _visit(join.view.rel, over_core)


def _table(scan: Scan, catalog: Catalog) -> Table:
    table = catalog.table(scan.ref.name)
    assert table is not None
    return table


def _all_required(table: Table, key: tuple[str, ...]) -> bool:
    return all(column.nullable is False for column in table.columns if column.name in key)


def _names(places: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Names of the core's columns: the table's own where it is the only one, with the node's before it elsewhere."""
    plain = [column.casefold() for _, column in places]
    found: dict[tuple[str, str], str] = {}
    for node, column in places:
        name = column if plain.count(column.casefold()) == 1 else f"{node}_{column}"
        while name.casefold() in {used.casefold() for used in found.values()}:
            name += "_"
        found[node, column] = name
    return found


def _linked(condition: exp.Expr, types: Mapping[str, Column]) -> tuple[str, str] | None:
    """The two columns that a condition equates, where equality means the same at the source and here."""
    match condition:
        case exp.EQ(this=exp.Column() as a, expression=exp.Column() as b):
            first, second = types[a.name].type, types[b.name].type
            exact = all(kind.partition("(")[0] in _EXACT for kind in (first, second))
            if exact or (first == second and first in ("string", "date", "timestamp", "timestamp_ntz", "boolean")):
                return a.name, b.name
    return None


def is_simple(condition: exp.Expr, types: Mapping[str, Column]) -> bool:
    """Whether a condition can be tested in Python with the very outcome that Spark would have."""
    match condition:
        case exp.Paren(this=inner) | exp.Not(this=inner):
            return is_simple(inner, types)
        case exp.And(this=a, expression=b) | exp.Or(this=a, expression=b):
            return is_simple(a, types) and is_simple(b, types)
        case exp.Column():
            return types[condition.name].type == "boolean"
        case exp.Is(this=exp.Column(), expression=exp.Null()):
            return True
        case exp.In(this=a, expressions=listed) if listed:
            return all(_comparable(a, each, types) for each in listed)
        case exp.Between(this=a):
            return all(_comparable(a, condition.args[side], types) for side in ("low", "high"))
        case exp.Binary(this=a, expression=b) if isinstance(condition, _ORDERED):
            return _comparable(a, b, types) or _comparable(b, a, types)
    return False


def _comparable(a: exp.Expr, b: exp.Expr, types: Mapping[str, Column]) -> bool:
    if not isinstance(a, exp.Column):
        return False
    kind = types[a.name].type.partition("(")[0]
    match b:
        case exp.Column():
            other = types[b.name].type
            return other == types[a.name].type and kind in (*_EXACT, "string", "date", "timestamp")
        case exp.Literal() if b.is_string:
            return kind == "string"
        case exp.Literal() | exp.Neg(this=exp.Literal(is_string=False)):
            return kind in _EXACT
    return False


def _require_connected(view: BoundView, nodes: list[str], links: tuple[Link, ...]) -> None:
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from((link.left, link.right) for link in links)
    parts = list(nx.connected_components(graph))
    if len(parts) > 1:
        first, second = (next(node for node in nodes if node in part) for part in parts[:2])
        message = f"{view.name} joins {first} and {second} on no equality of columns: a Cartesian product of sources"
        remedy = "join them on columns of the same exact type"
        raise InputError([Diagnostic("DF0805", message, view.statement.name_span, remedy)])


def _references(
    nodes: tuple[Node, ...], tables: Mapping[str, Table], links: tuple[Link, ...]
) -> tuple[tuple[str, str], ...]:
    """(r, n) where r's source enforces that r's columns name a key of n, and those are joined."""
    found = []
    pairs: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for link in links:
        pairs.setdefault((link.left, link.right), set()).update(link.pairs)
        pairs.setdefault((link.right, link.left), set()).update((b, a) for a, b in link.pairs)
    for r in nodes:
        for n in nodes:
            for key in tables[r.name].foreign_keys:
                named = find_name(key.table, [tables[n.name]])
                joined = set(zip(key.columns, key.referenced, strict=True)) <= pairs.get((r.name, n.name), set())
                primary = n.keys and set(key.referenced) == set(n.keys[0])
                if r.table != n.table and r.source == n.source and named and joined and primary:
                    found.append((r.name, n.name))
    return tuple(dict.fromkeys(found))
