"""The star below a summary table, in names that views can be compared by. [summary-delta-1997, section 3.3]

An *arm* is a table joined along a foreign key that is declared, NOT NULL and refers to a key, so that every row of the
referring side has exactly one partner: joining it neither drops nor doubles rows. An arm is known by its path from
the root: `pos/storeID>stores`. What is left when the arms are taken away are the *roots*, most often one fact table.
Other joins stay what they are: conditions between roots.

An *attribute* is a column of a root or an arm, named by path: `pos/storeID>stores.city`. The column that a foreign
key refers to is the same attribute as the foreign key's own. Two arms with one path are the same row, thus one arm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from .. import scalar
from ..algebra import Column, Join, JoinKind, Project, Rel, Scan, Select, State, col
from ..catalog import Catalog, ForeignKey, Table, find_name
from ..properties import schema


@dataclass(frozen=True, slots=True)
class Arm:
    """A table joined along a foreign key of the relation at `parent`."""

    path: str
    parent: str
    table: Table
    foreign_key: ForeignKey


@dataclass(frozen=True, slots=True)
class Star:
    """What a summary table aggregates."""

    roots: tuple[tuple[str, Rel], ...]  # label and relation
    arms: Mapping[str, Arm]  # by path, each after its parent
    conditions: Mapping[str, exp.Expr]  # over attributes, by text
    columns: Mapping[str, exp.Expr]  # each column of the core, over attributes


_DOT = "\x1f"  # no name of a user holds a control character


def attribute(path: str, column: str) -> str:
    return f"{path}{_DOT}{column}"


def path_of(name: str) -> str:
    """The root or arm that an attribute belongs to."""
    return name.partition(_DOT)[0]


def column_of(name: str) -> str:
    return name.partition(_DOT)[2]


def star_of(core: Rel, catalog: Catalog) -> Star:
    """The star of a relation without aggregates; what is not an inner join is a root of its own."""
    occurrences: list[Rel] = []
    conditions: list[exp.Expr] = []
    columns = _walk(core, occurrences, conditions)
    equated = {frozenset((a.name, b.name)) for a, b in map(_equated_columns, conditions) if a and b}
    attached: dict[int, tuple[int, ForeignKey]] = {}
    for child, other in enumerate(occurrences):
        for parent, referring in enumerate(occurrences):
            found = _foreign_key(parent, referring, child, other, equated, catalog)
            if found and child not in attached and not _below(parent, child, attached):
                attached[child] = (parent, found)
    return _named(occurrences, attached, conditions, columns, catalog)


def _walk(rel: Rel, occurrences: list[Rel], conditions: list[exp.Expr]) -> dict[str, exp.Expr]:
    match rel:
        case Select(input, condition):
            columns = _walk(input, occurrences, conditions)
            conditions += [scalar.substitute(part, columns) for part in scalar.conjuncts(condition)]
            return columns
        case Project(input, items):
            columns = _walk(input, occurrences, conditions)
            return {item.name: scalar.substitute(item.expression, columns) for item in items}
        case Join(left, right, condition, JoinKind.INNER):
            columns = _walk(left, occurrences, conditions) | _walk(right, occurrences, conditions)
            parts = [part for part in scalar.conjuncts(condition) if part != scalar.TRUE]
            conditions += [scalar.substitute(part, columns) for part in parts]
            return columns
    occurrences.append(rel)
    number = len(occurrences) - 1
    return {name: col(_numbered(number, name)) for name in rel.names}


def _numbered(number: int, name: str) -> str:
    return f"{number}.{name}"


def _equated_columns(condition: exp.Expr) -> tuple[exp.Column | None, exp.Column | None]:
    match condition:
        case exp.EQ(this=exp.Column() as a, expression=exp.Column() as b):
            return a, b
    return None, None


def _table(rel: Rel, catalog: Catalog) -> Table | None:
    return catalog.table(rel.ref.name) if isinstance(rel, Scan) and rel.ref.state is State.CURRENT else None


def is_total(table: Table, foreign_key: ForeignKey, referenced: Table) -> bool:
    """Whether every row has exactly one partner: no NULL in the foreign key, and it refers to a key."""
    required = all(not column.nullable for column in table.columns if column.name in foreign_key.columns)
    return required and any(set(key) == set(foreign_key.referenced) for key in referenced.keys)


def _foreign_key(
    parent: int, referring: Rel, child: int, other: Rel, equated: set[frozenset[str]], catalog: Catalog
) -> ForeignKey | None:
    table, referenced = _table(referring, catalog), _table(other, catalog)
    if parent == child or table is None or referenced is None:
        return None
    for foreign_key in table.foreign_keys:
        if foreign_key.table.casefold() != referenced.name.casefold() or not is_total(table, foreign_key, referenced):
            continue
        pairs = zip(foreign_key.columns, foreign_key.referenced, strict=True)
        if all(frozenset((_numbered(parent, a), _numbered(child, b))) in equated for a, b in pairs):
            return foreign_key
    return None


def _below(number: int, above: int, attached: Mapping[int, tuple[int, ForeignKey]]) -> bool:
    while number in attached and number != above:
        number = attached[number][0]
    return number == above


def _named(
    occurrences: list[Rel],
    attached: Mapping[int, tuple[int, ForeignKey]],
    conditions: list[exp.Expr],
    columns: Mapping[str, exp.Expr],
    catalog: Catalog,
) -> Star:
    paths: dict[int, str] = {}
    roots = [number for number in range(len(occurrences)) if number not in attached]
    names = [_label(occurrences[number]) for number in roots]
    for place, number in enumerate(roots):
        repeated = names.count(names[place]) > 1
        paths[number] = f"{names[place]}#{names[:place].count(names[place]) + 1}" if repeated else names[place]
    arms: dict[str, Arm] = {}

    def path(number: int) -> str:
        if number not in paths:
            parent, foreign_key = attached[number]
            above = path(parent)
            paths[number] = arm_path(above, foreign_key)
            table = _table(occurrences[number], catalog)
            assert table is not None
            arms[paths[number]] = Arm(paths[number], above, table, foreign_key)
        return paths[number]

    new_names: dict[str, exp.Expr] = {}
    for number, rel in enumerate(occurrences):
        for name in rel.names:
            new_names[_numbered(number, name)] = col(attribute(path(number), name))
    same = shared_attributes(arms, catalog)

    def renamed(expression: exp.Expr) -> exp.Expr:
        return same_attributes(scalar.substitute(expression, new_names), same)

    kept: dict[str, exp.Expr] = {}
    for condition in conditions:
        if not _is_along_arm(condition, attached):
            ordered = _ordered(renamed(condition))
            kept[scalar.text(ordered)] = ordered
    return Star(
        tuple(sorted(((paths[n], occurrences[n]) for n in roots), key=lambda root: root[0])),
        arms,
        dict(sorted(kept.items())),
        {name: renamed(expression) for name, expression in columns.items()},
    )


def _label(rel: Rel) -> str:
    return rel.ref.name if isinstance(rel, Scan) else "(query)"


def arm_path(parent: str, foreign_key: ForeignKey) -> str:
    return f"{parent}/{','.join(foreign_key.columns)}>{foreign_key.table}"


def shared_attributes(arms: Mapping[str, Arm], catalog: Catalog) -> dict[str, str]:
    """For each attribute that a foreign key refers to, the foreign key's own, where they have one type."""
    same: dict[str, str] = {}
    for arm in arms.values():
        parent = arms[arm.parent].table if arm.parent in arms else catalog.table(arm.parent.partition("#")[0])
        for own, other in zip(arm.foreign_key.columns, arm.foreign_key.referenced, strict=True):
            a, b = parent and find_name(own, parent.columns), find_name(other, arm.table.columns)
            if a and b and a.type == b.type:
                name = attribute(arm.parent, a.name)
                same[attribute(arm.path, b.name)] = same.get(name, name)
    return same


def same_attributes(expression: exp.Expr, same: Mapping[str, str]) -> exp.Expr:
    return scalar.rename(expression, same)


def _is_along_arm(condition: exp.Expr, attached: Mapping[int, tuple[int, ForeignKey]]) -> bool:
    a, b = _equated_columns(condition)
    if a is None or b is None:
        return False
    for child, (parent, foreign_key) in attached.items():
        for own, other in zip(foreign_key.columns, foreign_key.referenced, strict=True):
            if {a.name, b.name} == {_numbered(parent, own), _numbered(child, other)}:
                return True
    return False


def _ordered(condition: exp.Expr) -> exp.Expr:
    """Sides of an equality in one order, so that a = b and b = a are one condition."""
    if isinstance(condition, exp.EQ | exp.NullSafeEQ):
        a, b = condition.this, condition.expression
        if scalar.text(b) < scalar.text(a):
            return type(condition)(this=b.copy(), expression=a.copy())
    return condition


def root_columns(star: Star) -> Iterable[tuple[str, Column]]:
    """The columns of the roots by attribute."""
    for label, rel in star.roots:
        for column in schema(rel):
            yield attribute(label, column.name), column
