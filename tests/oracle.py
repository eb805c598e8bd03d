"""A plain-Python evaluator of the algebra: the fast oracle. Bags are lists of dict rows; NULL is None."""

from __future__ import annotations

import datetime as dt
import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, assert_never

from deltafold.compiler.aggregates import call_of
from deltafold.compiler.algebra import (
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
    Measure,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    SortKey,
    UnionAll,
    Values,
    Window,
)
from oracle_windows import over
from sqlglot import exp

Row = dict[str, Any]
Relations = Mapping[Ref, list[Row]]


def evaluate(rel: Rel, relations: Relations) -> list[Row]:
    """The rows of a relation."""
    match rel:
        case Scan(ref, _):
            return [{name: row[name] for name in rel.names} for row in relations[ref]]
        case Select(input, condition):
            return [row for row in evaluate(input, relations) if value(condition, row) is True]
        case Project(input, items):
            return [{i.name: value(i.expression, row) for i in items} for row in evaluate(input, relations)]
        case UnionAll(branches):
            return [row for branch in branches for row in evaluate(branch, relations)]
        case GroupBy(input, keys, measures):
            groups: dict[tuple[Any, ...], list[Row]] = {} if keys else {(): []}
            for row in evaluate(input, relations):
                groups.setdefault(tuple(row[key] for key in keys), []).append(row)
            return [
                dict(zip(keys, group, strict=True)) | {m.name: _aggregate(m, rows) for m in measures}
                for group, rows in groups.items()
            ]
        case Join():
            return _join(rel, evaluate(rel.left, relations), evaluate(rel.right, relations))
        case Values(_, rows):
            return [dict(zip(rel.names, (value(v, {}) for v in row), strict=True)) for row in rows]
        case Expand(input, branches):
            given = evaluate(input, relations)
            return [{i.name: value(i.expression, row) for i in branch} for row in given for branch in branches]
        case GPivot():
            return _pivot(rel, evaluate(rel.input, relations))
        case GUnpivot():
            return _unpivot(rel, evaluate(rel.input, relations))
        case Window(input, items):
            return _window(rel.partition, items, evaluate(input, relations))
        case Limit(input, order, count, offset):
            ordered = _sorted(evaluate(input, relations), order)
            return ordered[offset : None if count is None else offset + count]
        case ExceptAll(left, right):
            rest = bag(evaluate(left, relations), rel.names) - bag(evaluate(right, relations), rel.names)
            return [dict(zip(rel.names, row, strict=True)) for row in rest.elements()]
        case IntersectAll(left, right):
            both = bag(evaluate(left, relations), rel.names) & bag(evaluate(right, relations), rel.names)
            return [dict(zip(rel.names, row, strict=True)) for row in both.elements()]
        case _:
            assert_never(rel)


class NotAKey(Exception):
    """Two rows contend for one cell of a GPivot."""


def _pivot(rel: GPivot, rows: list[Row]) -> list[Row]:
    made: dict[tuple[Any, ...], Row] = {} if rel.keys else {(): dict.fromkeys(rel.names)}
    filled: set[tuple[Any, ...]] = set()
    for row in rows:
        key = tuple(row[name] for name in rel.keys)
        target = made.setdefault(key, dict.fromkeys(rel.names) | dict(zip(rel.keys, key, strict=True)))
        place = tuple(row[name] for name in rel.by)
        if (key, place) in filled:
            raise NotAKey(f"{key} {place}")
        filled.add((key, place))
        for cell in rel.cells:
            if tuple(value(v, {}) for v in cell.values) == place:
                target[cell.name] = row[cell.measure]
    return list(made.values())


def _unpivot(rel: GUnpivot, rows: list[Row]) -> list[Row]:
    made = []
    for row in rows:
        carried = {name: row[name] for name in rel.keys}
        for group in rel.groups:
            place = {name: value(v, {}) for name, v in zip(rel.by, group[0].values, strict=True)}
            values = dict.fromkeys(rel.measures) | {cell.measure: row[cell.name] for cell in group}
            if rel.include_nulls or any(v is not None for v in values.values()):
                made.append(carried | place | values)
    return made


def _sorted(rows: list[Row], order: tuple[SortKey, ...]) -> list[Row]:
    rows = list(rows)
    for key in reversed(order):
        there = [row for row in rows if value(key.expression, row) is not None]
        nulls = [row for row in rows if value(key.expression, row) is None]
        there.sort(key=lambda row, key=key: value(key.expression, row), reverse=key.descending)  # type: ignore[misc]
        rows = nulls + there if key.nulls_first else there + nulls
    return rows


def _window(partition: tuple[str, ...], items: tuple[Item, ...], rows: list[Row]) -> list[Row]:
    parts: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(row[name] for name in partition), []).append(row)
    made = []
    for members in parts.values():
        columns = {item.name: _over(item.expression, members) for item in items}
        made += [row | {name: found[id(row)] for name, found in columns.items()} for row in members]
    return made


def _over(call: exp.Expr, members: list[Row]) -> dict[int, Any]:
    """The value of a call with OVER for each row of a partition, by the row's identity."""
    ordering = call.args.get("order")
    order = tuple(sort_key(ordered) for ordered in ordering.expressions) if ordering else ()
    ordered = _sorted(members, order)
    peers = [tuple(value(key.expression, row) for key in order) for row in ordered]
    found = over(call, ordered, peers, value, _window_aggregate)
    return {id(row): result for row, result in zip(ordered, found, strict=True)}


def _window_aggregate(function: exp.Expr, frame: list[Row]) -> Any:
    call = call_of(function)
    if call is None:
        raise NotImplementedError(type(function).__name__)
    return _aggregate(Measure("", call.function, call.arguments, call.distinct), frame)


def sort_key(ordered: exp.Expr) -> SortKey:
    """A sort key of sqlglot's; NULLs come first in ascending and last in descending order, unless it says otherwise."""
    descending = bool(ordered.args.get("desc"))
    nulls_first = ordered.args.get("nulls_first")
    return SortKey(ordered.this, descending, not descending if nulls_first is None else bool(nulls_first))


def _join(join: Join, left: list[Row], right: list[Row]) -> list[Row]:
    rows: list[Row] = []
    matched: set[int] = set()
    for a in left:
        partners = [i for i, b in enumerate(right) if value(join.condition, a | b) is True]
        matched.update(partners)
        match join.kind:
            case JoinKind.SEMI:
                rows += [a] if partners else []
            case JoinKind.ANTI:
                rows += [] if partners else [a]
            case _:
                rows += [a | right[i] for i in partners]
                if not partners and join.kind in (JoinKind.LEFT, JoinKind.FULL):
                    rows.append(a | dict.fromkeys(join.right.names))
    if join.kind is JoinKind.FULL:
        rows += [dict.fromkeys(join.left.names) | b for i, b in enumerate(right) if i not in matched]
    return rows


def _aggregate(measure: Measure, rows: list[Row]) -> Any:
    if measure.argument is None:
        return len(rows)
    if len(measure.arguments) > 1:
        if measure.function != "count":
            return _aggregate_of_pairs(measure, rows)
        given = [tuple(value(argument, row) for argument in measure.arguments) for row in rows]
        present = [values for values in given if None not in values]
        return len(set(present) if measure.distinct else present)
    values = [v for v in (value(measure.argument, row) for row in rows) if v is not None]
    if measure.distinct:
        values = list(dict.fromkeys(values))
    match measure.function:
        case "count":
            return len(values)
        case "sum":
            return sum(values[1:], values[0]) if values else None
        case "min":
            return min(values, default=None)
        case "max":
            return max(values, default=None)
        case "avg":
            return float(sum(values)) / len(values) if values else None
        case "count_if":
            return sum(values)
        case "bool_and":
            return all(values) if values else None
        case "bool_or":
            return any(values) if values else None
        case "median":
            return float(statistics.median(values)) if values else None
        case "var_pop":
            return float(statistics.pvariance(values)) if values else None
        case "stddev_samp":
            return float(statistics.stdev(values)) if len(values) > 1 else None
    raise NotImplementedError(measure.function)


def _aggregate_of_pairs(measure: Measure, rows: list[Row]) -> Any:
    """Aggregates of two arguments; all but MAX_BY and MIN_BY see the rows in which neither is NULL."""
    all_pairs = [(value(measure.arguments[0], row), value(measure.arguments[1], row)) for row in rows]
    pairs = [(x, y) for x, y in all_pairs if x is not None and y is not None]
    number = len(pairs)
    mean_x, mean_y = (sum(side) / number for side in zip(*pairs, strict=True)) if pairs else (0, 0)
    both = sum((x - mean_x) * (y - mean_y) for x, y in pairs)
    match measure.function:
        case "max_by" | "min_by":
            pick = max if measure.function == "max_by" else min
            ordered = [pair for pair in all_pairs if pair[1] is not None]
            return pick(ordered, key=lambda pair: pair[1])[0] if ordered else None
        case "covar_pop":
            return float(both / number) if number else None
        case "regr_slope":
            spread = sum((y - mean_y) ** 2 for _, y in pairs)
            return float(both / spread) if spread else None
    raise NotImplementedError(f"{measure.function} of several arguments")


def value(expression: exp.Expr, row: Row) -> Any:
    """The value of a scalar expression, with SQL's three-valued logic."""
    match expression:
        case exp.Column():
            key = f"{expression.table}.{expression.name}" if expression.table else expression.name
            return row[key]
        case exp.Paren(this=inner):
            return value(inner, row)
        case exp.Literal():
            if expression.is_string:
                return expression.name
            return int(expression.name) if expression.name.isdigit() else Decimal(expression.name)
        case exp.Boolean(this=truth):
            return truth
        case exp.Null():
            return None
        case exp.And(this=a, expression=b):
            sides = (value(a, row), value(b, row))
            return False if False in sides else None if None in sides else True
        case exp.Or(this=a, expression=b):
            sides = (value(a, row), value(b, row))
            return True if True in sides else None if None in sides else False
        case exp.Not(this=a):
            inner = value(a, row)
            return None if inner is None else not inner
        case exp.Is(this=a, expression=b):
            return value(a, row) is value(b, row)
        case exp.NullSafeEQ(this=a, expression=b):
            return value(a, row) == value(b, row)
        case exp.Case():
            for branch in expression.args["ifs"]:
                if value(branch.this, row) is True:
                    return value(branch.args["true"], row)
            default = expression.args.get("default")
            return None if default is None else value(default, row)
        case exp.Coalesce():
            for part in (expression.this, *expression.expressions):
                if (found := value(part, row)) is not None:
                    return found
            return None
        case exp.Nullif(this=a, expression=b):
            left = value(a, row)
            return None if left == value(b, row) else left
        case exp.Least() | exp.Greatest():
            values = [v for v in (value(p, row) for p in (expression.this, *expression.expressions)) if v is not None]
            pick = min if isinstance(expression, exp.Least) else max
            return pick(values) if values else None
        case exp.In(this=a):
            given = value(a, row)
            listed = [value(v, row) for v in expression.expressions]
            if given is None:
                return None
            return True if given in listed else None if None in listed else False
        case exp.Like(this=a, expression=b):
            left, right = value(a, row), value(b, row)
            if left is None or right is None:
                return None
            pattern = re.escape(right).replace("%", ".*").replace("_", ".")
            return (re.fullmatch(pattern, left, re.S) is not None) != bool(expression.args.get("negate"))
        case exp.Between(this=a):
            low, high = (
                exp.GTE(this=a, expression=expression.args["low"]),
                exp.LTE(this=a, expression=expression.args["high"]),
            )
            return value(exp.And(this=low, expression=high), row)
        case exp.Anonymous(this="raise_error" | "RAISE_ERROR"):
            raise Raised(value(expression.expressions[0], row))
        case exp.Upper() | exp.Lower() | exp.Length() | exp.Abs() | exp.Round() | exp.Concat():
            arguments = [value(a, row) for a in expression.iter_expressions()]
            return None if None in arguments else _function(expression, arguments)
        case exp.Cast(this=a):
            return _cast(value(a, row), expression.to)
        case exp.Ceil(this=a) | exp.Floor(this=a):
            inner = value(a, row)
            return None if inner is None else (math.ceil if isinstance(expression, exp.Ceil) else math.floor)(inner)
        case exp.Sqrt(this=a):
            inner = value(a, row)
            return None if inner is None else math.sqrt(inner)
        case exp.Array():
            return [value(part, row) for part in expression.expressions]
        case exp.Neg(this=a):
            inner = value(a, row)
            return None if inner is None else -inner
        case exp.Binary(this=a, expression=b):
            left, right = value(a, row), value(b, row)
            return None if left is None or right is None else _binary(expression, left, right)
    raise NotImplementedError(type(expression).__name__)


class Raised(Exception):
    """raise_error was evaluated."""


def _function(node: exp.Expr, arguments: list[Any]) -> Any:
    match node:
        case exp.Upper():
            return arguments[0].upper()
        case exp.Lower():
            return arguments[0].lower()
        case exp.Length():
            return len(arguments[0])
        case exp.Abs():
            return abs(arguments[0])
        case exp.Round():
            digits = arguments[1] if len(arguments) > 1 else 0
            exact = Decimal(str(arguments[0])).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
            return float(exact) if isinstance(arguments[0], float) else exact
    return "".join(str(argument) for argument in arguments)


def _binary(operator: exp.Expr, left: Any, right: Any) -> Any:
    match operator:
        case exp.Add():
            return left + right
        case exp.Sub():
            return left - right
        case exp.Mul():
            return left * right
        case exp.Div():
            return float(left) / float(right)
        case exp.Mod():
            return math.fmod(left, right) if isinstance(left, float) else int(math.fmod(left, right))
        case exp.EQ():
            return left == right
        case exp.NEQ():
            return left != right
        case exp.LT():
            return left < right
        case exp.LTE():
            return left <= right
        case exp.GT():
            return left > right
        case exp.GTE():
            return left >= right
    raise NotImplementedError(type(operator).__name__)


def _cast(given: Any, to: exp.DataType) -> Any:
    if given is None:
        return None
    match to.this.name:
        case "DOUBLE":
            return float(given)
        case "DATE":
            return given if isinstance(given, dt.date) else dt.date.fromisoformat(given)
        case "BIGINT" | "INT" | "TINYINT" | "SMALLINT" | "DECIMAL":
            return given
        case "TEXT" | "VARCHAR":
            return str(given)
    raise NotImplementedError(to.sql())


def bag(rows: list[Row], names: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    """The rows with their number of copies; floats rounded, since order of addition is not fixed."""
    return Counter(tuple(round(r[n], 9) if isinstance(r[n], float) else r[n] for n in names) for r in rows)
