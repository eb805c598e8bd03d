"""Properties of relations that follow from declared constraints: keys, functional dependencies, NOT NULL columns.

`dependencies.py` has the theory. Constraints of a table hold in its old, current and new state; nothing is assumed of
changes and deltas. How operators keep properties:

| operator | keeps |
|---|---|
| Select, ExceptAll | everything; `a = b` makes each determine the other, `a = 1` makes a constant |
| Limit, Values | everything; of one row at most, () is a key |
| Project | what it says of kept columns; a computed column is determined by what it reads |
| Join inner | both sides', with the condition as in Select; two keys side by side are a key |
| Join left | the left side's; the right side's hold where a row was matched; what the left columns of the condition |
|           | determine among partners they determine here, since rows that agree on them are matched alike |
| Join full | each side's, lax unless a column tells whether the side is there |
| GroupBy | the grouping columns are a key |
| GPivot, GUnpivot | the carried columns' dependencies; the key of a pivot; a key and the names of an unpivot |
| Window | the input's; partition and row_number are a key |
| UnionAll, Expand | what holds in each branch, if a column tells the branches apart by constants |
| IntersectAll | both sides' |
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from . import scalar
from .algebra import (
    Column,
    ExceptAll,
    Expand,
    GPivot,
    GroupBy,
    GUnpivot,
    IntersectAll,
    Item,
    Join,
    JoinKind,
    Limit,
    Project,
    Rel,
    Scan,
    Select,
    State,
    UnionAll,
    Values,
    Window,
)
from .catalog import Catalog, Table, find_name
from .columns import schema as schema
from .conditions import equalities, floats, needed_by
from .dependencies import Columns, Dependencies, Dependency, closure, keys_of, merged, projected, renamed
from .remembered import remembered
from .typing import type_of

Key = Columns
MOST_KEYS = 16
_TABLE_STATES = (State.CURRENT, State.OLD, State.NEW)


@dataclass(frozen=True, slots=True)
class Properties:
    keys: tuple[Key, ...] = ()  # candidate keys, none within another
    lax_keys: tuple[Key, ...] = ()  # keys of the rows that have no NULL in them
    dependencies: Dependencies = ()
    not_null: Columns = frozenset()


def keys(rel: Rel, catalog: Catalog) -> tuple[Key, ...]:
    """The candidate keys that are known, none containing another."""
    return properties(rel, catalog).keys


@remembered
def properties(rel: Rel, catalog: Catalog) -> Properties:
    """All that is known of a relation's rows."""
    match rel:
        case Scan():
            return _scan(rel, catalog)
        case Values(_, rows):
            found = [frozenset[str]()] if len(rows) <= 1 else []
            return _made(rel, found, (), frozenset())
        case Select(input, condition):
            return _restricted(rel, properties(input, catalog), condition)
        case Limit(input, _, count):
            below = properties(input, catalog)
            return _made(rel, [frozenset()], below.dependencies, below.not_null) if count in (0, 1) else below
        case Project(input, items):
            return _projection(rel, items, properties(input, catalog), schema(input))
        case Expand(input, branches):
            below, columns = properties(input, catalog), schema(input)
            given = tuple(Project(input, items) for items in branches)
            return _union(rel, given, [_projection(p, p.items, below, columns) for p in given])
        case UnionAll(branches):
            return _union(rel, branches, [properties(branch, catalog) for branch in branches])
        case Join():
            return _join(rel, properties(rel.left, catalog), properties(rel.right, catalog))
        case GroupBy(input, grouped, _):
            below = properties(input, catalog)
            kept = projected(below.dependencies, frozenset(grouped), below.not_null)
            return _made(rel, [frozenset(grouped)], kept, below.not_null & frozenset(grouped))
        case GPivot(input):
            below, carried = properties(input, catalog), frozenset(rel.keys)
            kept = projected(below.dependencies, carried, below.not_null)
            return _made(rel, [carried], kept, below.not_null & carried)
        case GUnpivot(input):
            below, carried = properties(input, catalog), frozenset(rel.keys)
            kept = projected(below.dependencies, carried, below.not_null)
            apart = _values_differ([group[0].values for group in rel.groups])
            found = [key | frozenset(rel.by) for key in below.keys if key <= carried and apart]
            return _made(rel, found, kept, below.not_null & carried)
        case Window(input, items):
            return _window(rel, items, properties(input, catalog))
        case ExceptAll(left, _):
            return properties(left, catalog)
        case IntersectAll(left, right):
            a, b = properties(left, catalog), properties(right, catalog)
            b = _renamed(b, dict(zip(right.names, left.names, strict=True)))
            return _made(rel, [*a.keys, *b.keys], a.dependencies + b.dependencies, a.not_null | b.not_null)
        case _:
            assert_never(rel)


def _made(
    rel: Rel,
    found: Iterable[Key],
    dependencies: Dependencies,
    not_null: Columns,
    lax_keys: tuple[Key, ...] = (),
) -> Properties:
    """Properties in their normal form: lax ones promoted, keys reduced and put among the dependencies."""
    names = frozenset(rel.names)
    required = not_null | {column.name for column in schema(rel) if not column.nullable}
    keys_found = [*found, *(key for key in lax_keys if key <= required)]
    lax_left = tuple(key for key in lax_keys if not key <= required)
    told_by_keys = [Dependency(key, names) for key in keys_found]
    told_by_keys += [Dependency(key, names, lax=True) for key in lax_left]
    known = merged([*dependencies, *told_by_keys], required)
    best = keys_of(names, keys_found, known, required)[:MOST_KEYS]
    return Properties(best, lax_left, known, required)


def _renamed(given: Properties, new_names: dict[str, str]) -> Properties:
    def new(columns: Columns) -> Columns:
        return frozenset(new_names[name] for name in columns)

    return Properties(
        tuple(new(key) for key in given.keys),
        tuple(new(key) for key in given.lax_keys),
        renamed(given.dependencies, new_names),
        new(given.not_null),
    )


# ---- leaves


def _scan(rel: Scan, catalog: Catalog) -> Properties:
    table = catalog.table(rel.ref.name)
    if table is None or rel.ref.state not in _TABLE_STATES:
        return _made(rel, [], (), frozenset())
    names = frozenset(rel.names)
    declared = [frozenset(key) for key in table.keys if names.issuperset(key)]
    dependencies = [*_hierarchies(table, catalog), *_generated(table)]
    dependencies = [d for d in dependencies if d.left | d.right <= names]
    return _made(rel, [], tuple(dependencies), _checked(table) & names, tuple(declared))


def _checked(table: Table) -> Columns:
    """The columns of CHECK (c IS NOT NULL): of CHECKs only these are never unknown."""
    found = set()
    for part in itertools.chain.from_iterable(scalar.conjuncts(condition) for condition in table.checks):
        match part:
            case exp.Not(this=exp.Is(this=exp.Column() as value, expression=exp.Null())):
                found.add(value.name)
    return frozenset(found)


def _generated(table: Table) -> Iterable[Dependency]:
    by_name = {column.name: column for column in table.columns}
    for column in table.generated:
        if not floats(column.expression, by_name):
            yield Dependency(scalar.columns_of(column.expression), frozenset([column.column]))


def _hierarchies(table: Table, catalog: Catalog) -> Iterable[Dependency]:
    """What the dimensions say of one table: a level determines the next one."""
    for dimension in catalog.dimensions:
        for _, steps in dimension.hierarchies:
            levels = [level for step in steps if (level := find_name(step, dimension.levels)) is not None]
            for child, parent in itertools.pairwise(levels):
                if child.table.casefold() == parent.table.casefold() == table.name.casefold():
                    yield Dependency(_columns(table, child.columns), _columns(table, parent.columns), lax=True)


def _columns(table: Table, names: Iterable[str]) -> Columns:
    return frozenset(column.name for name in names if (column := table.column(name)) is not None)


# ---- conditions


def _restricted(rel: Rel, below: Properties, condition: exp.Expr) -> Properties:
    known = below.dependencies + equalities(condition, schema(rel))
    return _made(rel, below.keys, known, below.not_null | needed_by(condition), below.lax_keys)


# ---- projections and unions


def _projection(rel: Project, items: tuple[Item, ...], below: Properties, columns: tuple[Column, ...]) -> Properties:
    by_name = {column.name: column for column in columns}
    aliases: dict[str, list[str]] = {}
    for item in items:
        if isinstance(item.expression, exp.Column):
            aliases.setdefault(item.expression.name, []).append(item.name)
    # A column goes by its first new name; one that is gone keeps its own, marked so that no new name can be it.
    new_names = {name: aliases[name][0] if name in aliases else f"\0{name}" for name in by_name}
    given = _renamed(below, new_names)
    dependencies, not_null = list(given.dependencies), set(given.not_null)
    known = {name: Column(name, c.type, name not in below.not_null) for name, c in by_name.items()}
    for item in items:
        made = frozenset([item.name])
        if isinstance(item.expression, exp.Column):
            first = frozenset([new_names[item.expression.name]])
            dependencies += [Dependency(first, made), Dependency(made, first)]
            not_null |= made if first <= given.not_null else set()
            continue
        if not floats(item.expression, by_name):
            reads = frozenset(new_names[name] for name in scalar.columns_of(item.expression))
            dependencies.append(Dependency(reads, made))
        not_null |= set() if type_of(item.expression, known).nullable else made
    names, required = frozenset(rel.names), frozenset(not_null)
    known_now = merged(dependencies, required)
    found = [key & names for key in given.keys if key <= closure(key & names, known_now, required)]
    lax = tuple(key for key in given.lax_keys if key <= names)
    return _made(rel, found, projected(known_now, names, required), required & names, lax)


def _union(rel: Rel, branches: tuple[Rel, ...], given: list[Properties]) -> Properties:
    """What holds of branches put one below the other."""
    given = [_renamed(p, dict(zip(b.names, rel.names, strict=True))) for b, p in zip(branches, given, strict=True)]
    not_null = frozenset(rel.names).intersection(*(p.not_null for p in given))
    if len(branches) == 1:
        return _made(rel, given[0].keys, given[0].dependencies, not_null, given[0].lax_keys)
    telling = [name for place, name in enumerate(rel.names) if _values_differ(_constants(branches, place))]
    if not telling:
        return _made(rel, [], (), not_null)
    mark = frozenset(telling[:1])
    shared = [
        Dependency(dependency.left | mark, common, dependency.lax)
        for dependency in given[0].dependencies
        if (common := _everywhere(dependency, given[1:]))
    ]
    found = [
        mark.union(*choice)
        for choice in itertools.islice(itertools.product(*(p.keys for p in given)), MOST_KEYS)
        if all(p.keys for p in given)
    ]
    return _made(rel, found, tuple(shared), not_null)


def _everywhere(dependency: Dependency, others: list[Properties]) -> Columns:
    """The part of a dependency's right side that holds in all of these too."""
    right = dependency.right
    for other in others:
        known = other.not_null | dependency.left if dependency.lax else other.not_null
        right &= closure(dependency.left, other.dependencies, known)
    return right


def _constants(branches: tuple[Rel, ...], place: int) -> list[tuple[exp.Expr, ...]]:
    """The expression of one column in each branch, where all of them are projections."""
    if not all(isinstance(branch, Project) for branch in branches):
        return []
    return [(branch.items[place].expression,) for branch in branches if isinstance(branch, Project)]


def _values_differ(lists: list[tuple[exp.Expr, ...]]) -> bool:
    """Whether lists of literals are all different, each place in them of one kind, so that nothing is converted."""
    shown = [tuple(_shown(value) for value in values) for values in lists]
    alike = all(
        len({kind for kind, _ in column}) == 1 and ("", "") not in column for column in zip(*shown, strict=True)
    )
    return bool(lists) and alike and len(set(shown)) == len(shown)


def _shown(value: exp.Expr) -> tuple[str, str]:
    """The kind of a literal and its value; of anything else, nothing."""
    match value:
        case exp.Literal() if value.is_string:
            return "string", value.name
        case exp.Literal() if value.name.isdigit():
            return "integer", str(int(value.name))
        case exp.Neg(this=exp.Literal() as inner) if inner.name.isdigit() and not inner.is_string:
            return "integer", str(-int(inner.name))
        case exp.Boolean():
            return "boolean", str(value.this)
        case exp.Cast(this=inner, to=to) if to.this in exp.DataType.INTEGER_TYPES and _shown(inner)[0] == "integer":
            return _shown(inner)
    return "", ""


# ---- joins


def _join(rel: Join, left: Properties, right: Properties) -> Properties:
    columns = schema(rel.left) + schema(rel.right)
    ours, theirs = frozenset(rel.left.names), frozenset(rel.right.names)
    met = equalities(rel.condition, columns)
    matched = left.not_null | right.not_null | needed_by(rel.condition)
    partners = (*right.keys, *(key for key in right.lax_keys if key <= matched))
    match rel.kind:
        case JoinKind.INNER:
            first = (*left.keys, *(key for key in left.lax_keys if key <= matched))
            pairs = [a | b for a in first for b in partners]
            return _made(rel, pairs, left.dependencies + right.dependencies + met, matched)
        case JoinKind.SEMI:
            own = tuple(d for d in met if d.left | d.right <= ours)
            needed = needed_by(rel.condition) & ours
            return _made(rel, left.keys, left.dependencies + own, left.not_null | needed, left.lax_keys)
        case JoinKind.ANTI:
            return left
        case JoinKind.LEFT:
            asked = scalar.columns_of(rel.condition) & ours
            reached = closure(asked, left.dependencies + right.dependencies + met, matched) & theirs
            there = _where_matched(right.dependencies + met, theirs, matched)
            kept = (*left.dependencies, *there, Dependency(asked, reached))
            pairs = [a | b for a in left.keys for b in partners]
            return _made(rel, pairs, kept, left.not_null)
        case JoinKind.FULL:
            kept = (
                *_where_matched(left.dependencies, ours, left.not_null),
                *_where_matched(right.dependencies, theirs, right.not_null),
            )
            sure = [a | b for a in left.keys for b in right.keys if a & left.not_null and b & right.not_null]
            return _made(rel, sure, kept, frozenset())
        case _:
            assert_never(rel.kind)


def _where_matched(dependencies: Dependencies, side: Columns, matched: Columns) -> Iterable[Dependency]:
    """What is left of dependencies when rows come in whose columns of one side are all NULL.

    A column of the side that is never NULL in matched rows tells the two sorts of rows apart; without one only rows
    without NULL on the left are spoken of. Of the other side's columns only those say anything.
    """
    for dependency in dependencies:
        of_side = dependency.left & side
        if not of_side:
            continue
        tells = bool(of_side & matched) and not dependency.lax
        if dependency.right & side:
            yield Dependency(dependency.left, dependency.right & side, lax=not tells)
        if dependency.right - side:
            yield Dependency(dependency.left, dependency.right - side, lax=True)


# ---- windows


# Without a frame the rows up to the last peer count, and peers agree on what is ordered by.
_EVEN_FOR_PEERS = (exp.Rank, exp.DenseRank, exp.Count, exp.Sum, exp.Min, exp.Max, exp.Avg)


def _window(rel: Window, items: tuple[Item, ...], below: Properties) -> Properties:
    partition = frozenset(rel.partition)
    found, dependencies = list(below.keys), list(below.dependencies)
    for item in items:
        call, order = item.expression.this, item.expression.args.get("order")
        ordered = scalar.columns_of(order) if order else frozenset[str]()
        if isinstance(call, exp.RowNumber):
            found.append(partition | {item.name})
        elif isinstance(call, _EVEN_FOR_PEERS) and not item.expression.args.get("spec"):
            dependencies.append(Dependency(partition | ordered, frozenset([item.name])))
    return _made(rel, found, tuple(dependencies), below.not_null, below.lax_keys)
