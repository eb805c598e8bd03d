"""A plain-Python evaluator of the algebra: the fast oracle. Bags are lists of dict rows; NULL is None."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, assert_never

from deltafold.compiler.algebra import GroupBy, Join, JoinKind, Measure, Project, Ref, Rel, Scan, Select, UnionAll
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
        case _:
            assert_never(rel)


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
    values = [v for v in (value(measure.argument, row) for row in rows) if v is not None]
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
    raise NotImplementedError(measure.function)


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
        case exp.Cast(this=a):
            return _cast(value(a, row), expression.to)
        case exp.Neg(this=a):
            inner = value(a, row)
            return None if inner is None else -inner
        case exp.Binary(this=a, expression=b):
            left, right = value(a, row), value(b, row)
            return None if left is None or right is None else _binary(expression, left, right)
    raise NotImplementedError(type(expression).__name__)


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
        case "BIGINT" | "INT" | "DECIMAL":
            return given
    raise NotImplementedError(to.sql())


def bag(rows: list[Row], names: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    """The rows with their number of copies; floats rounded, since order of addition is not fixed."""
    return Counter(tuple(round(r[n], 9) if isinstance(r[n], float) else r[n] for n in names) for r in rows)
