"""CREATE TABLE and ALTER TABLE … ADD CONSTRAINT: columns, keys, references, CHECK conditions, generated columns.

Constraints are taken in all the spellings of Spark and Databricks: at a column or on their own, named or not, with
NOT ENFORCED, RELY and the like, which say nothing here since every constraint is trusted. CHECK conditions and
generated columns become bound expressions over the table's columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import sqlglot
from sqlglot import exp

from . import scalar
from .algebra import Column, col
from .catalog import Generated, Table, did_you_mean, find_name
from .read import AlterTable, CreateTable, place_of
from .scalar import DIALECT
from .source import Diagnostic, Span
from .types import type_name
from .typing import NotDeterministic, UnknownType, type_of

_SAY_NOTHING = (
    exp.CommentColumnConstraint,
    exp.DefaultColumnConstraint,
    exp.CollateColumnConstraint,
    exp.GeneratedAsIdentityColumnConstraint,
    exp.AutoIncrementColumnConstraint,
    exp.CharacterSetColumnConstraint,
    exp.EncodeColumnConstraint,
)


def check_name(name: str, place: Span, errors: list[Diagnostic]) -> None:
    """Names reach generated files: hidden ones are ours, and control characters are nobody's."""
    if name.startswith("__"):
        errors.append(
            Diagnostic("DF0102", f"{name}: names that start with two underscores are reserved", place, "rename it")
        )
    if not name or any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029" for c in name):
        errors.append(
            Diagnostic("DF0103", "a name may hold neither line breaks nor other control characters", place, "rename it")
        )


@dataclass(slots=True)
class Draft:
    """A table whose statements are being read."""

    name: str
    span: Span
    errors: list[Diagnostic]
    columns: list[Column] = field(default_factory=list)
    keys: list[tuple[str, ...]] = field(default_factory=list)
    checks: list[exp.Expr] = field(default_factory=list)
    generated: list[Generated] = field(default_factory=list)
    references: list[tuple[exp.Reference, tuple[str, ...], Span]] = field(default_factory=list)

    def finished(self) -> Table:
        return Table(
            self.name,
            tuple(self.columns),
            self.span,
            tuple(dict.fromkeys(key for key in self.keys if key)),
            checks=tuple(self.checks),
            generated=tuple(self.generated),
        )

    def column_names(self, nodes: list[exp.Expr], span: Span) -> tuple[str, ...]:
        """The columns that a constraint names, as they are declared; nothing if one of them is not there."""
        found = []
        for node in nodes:
            column = find_name(node.name, self.columns)
            if column is None:
                known = did_you_mean(node.name, (c.name for c in self.columns))
                message = f"table {self.name} has no column {node.name}"
                self.errors.append(Diagnostic("DF0104", message, place_of(node, span), known))
                return ()
            found.append(column.name)
        return tuple(dict.fromkeys(found))

    def require(self, names: tuple[str, ...]) -> None:
        self.columns = [replace(c, nullable=c.nullable and c.name not in names) for c in self.columns]


def read_table(statement: CreateTable, errors: list[Diagnostic]) -> Draft:
    """A table as CREATE TABLE declares it."""
    target, span = statement.schema.this, statement.span
    draft = Draft(target.name, span, errors)
    check_name(target.name, place_of(target, span), errors)
    if target.args.get("db"):
        errors.append(
            Diagnostic("DF0009", "a table's name has one part", place_of(target, span), "leave out the database")
        )
    definitions = [part for part in statement.schema.expressions if isinstance(part, exp.ColumnDef)]
    accepted = [definition for definition in definitions if _column(definition, draft, span)]
    for definition in accepted:
        for constraint in definition.constraints:
            kind = constraint.kind if isinstance(constraint, exp.ColumnConstraint) else constraint
            _constrain(kind, (definition.this,), draft, span, statement.dialect)
    for part in statement.schema.expressions:
        if not isinstance(part, exp.ColumnDef):
            add_constraint(part, draft, span, statement.dialect)
    return draft


def alter_table(statement: AlterTable, draft: Draft) -> None:
    """ALTER TABLE … ADD [CONSTRAINT …] and ALTER COLUMN … SET NOT NULL."""
    for action in statement.actions:
        if isinstance(action, exp.AddConstraint):
            for part in action.expressions:
                add_constraint(part, draft, statement.span, statement.dialect)
        else:
            draft.require(draft.column_names([action.this], statement.span))


def _column(definition: exp.ColumnDef, draft: Draft, span: Span) -> bool:
    place = place_of(definition.this, span)
    check_name(definition.name, place, draft.errors)
    if find_name(definition.name, draft.columns):
        draft.errors.append(Diagnostic("DF0105", f"column {definition.name} is declared twice", place, "rename one"))
        return False
    if definition.kind is None:
        draft.errors.append(Diagnostic("DF0106", f"column {definition.name} has no type", place))
        return False
    draft.columns.append(Column(definition.name, type_name(definition.kind)))
    return True


def add_constraint(part: exp.Expr, draft: Draft, span: Span, dialect: str) -> None:
    """A constraint that stands on its own, named or not."""
    for constraint in part.expressions if isinstance(part, exp.Constraint) else [part]:
        match constraint:
            case exp.PrimaryKey():
                _constrain(exp.PrimaryKeyColumnConstraint(), tuple(constraint.expressions), draft, span, dialect)
            case exp.UniqueColumnConstraint():
                listed = constraint.this if constraint.this is not None else constraint
                _constrain(exp.UniqueColumnConstraint(), tuple(listed.expressions), draft, span, dialect)
            case exp.ForeignKey() if constraint.args.get("reference"):
                _constrain(constraint.args["reference"], tuple(constraint.expressions), draft, span, dialect)
            case exp.CheckColumnConstraint():
                _constrain(constraint, (), draft, span, dialect)
            case exp.Identifier():
                place = place_of(constraint, span)
                draft.errors.append(Diagnostic("DF0106", f"column {constraint.name} has no type", place))
            case _:
                _not_understood(constraint, draft, span)


def _constrain(kind: exp.Expr, nodes: tuple[exp.Expr, ...], draft: Draft, span: Span, dialect: str) -> None:
    """What one constraint says of columns of the table."""
    match kind:
        case exp.NotNullColumnConstraint():
            if not kind.args.get("allow_null"):
                draft.require(draft.column_names(list(nodes), span))
        case exp.PrimaryKeyColumnConstraint():
            key = draft.column_names(list(nodes), span)
            draft.keys.insert(0, key)
            draft.require(key)
        case exp.UniqueColumnConstraint():
            draft.keys.append(draft.column_names(list(nodes), span))
        case exp.Reference():
            names = draft.column_names(list(nodes), span)
            if names:
                draft.references.append((kind, names, place_of(nodes[0], span)))
        case exp.ForeignKey() if kind.args.get("reference"):
            _constrain(kind.args["reference"], nodes, draft, span, dialect)
        case exp.CheckColumnConstraint(this=exp.Expr() as condition):
            bound = _bound(condition, draft, span, dialect, ("boolean", "void"))
            if bound is not None:
                draft.checks.append(bound)
        case exp.ComputedColumnConstraint(this=exp.Expr() as expression):
            bound = _bound(expression, draft, span, dialect)
            names = draft.column_names(list(nodes), span)
            if bound is not None and names:
                draft.generated.append(Generated(names[0], bound))
        case _:
            if not isinstance(kind, _SAY_NOTHING):
                _not_understood(kind, draft, span)


def _not_understood(constraint: exp.Expr, draft: Draft, span: Span) -> None:
    remedy = "PRIMARY KEY, UNIQUE, FOREIGN KEY, NOT NULL and CHECK are; leave others out"
    draft.errors.append(Diagnostic("DF0107", "this constraint is not understood", place_of(constraint, span), remedy))


def _bound(
    expression: exp.Expr, draft: Draft, span: Span, dialect: str, types: tuple[str, ...] = ()
) -> exp.Expr | None:
    """An expression over the table's columns; None, with the error noted, where it is none."""
    place = place_of(expression, span)
    wanted = [node.this for node in expression.find_all(exp.Column)]
    if any(not draft.column_names([node], span) for node in wanted):
        return None
    if expression.find(exp.Query, exp.AggFunc, exp.Window, exp.Star) is not None:
        message = "a CHECK or generated column is evaluated on one row: it has no subquery and no aggregate"
        draft.errors.append(Diagnostic("DF0113", message, place, "leave it out"))
        return None
    by_name = {column.name: column for column in draft.columns}

    def bind(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            column = find_name(node.name, draft.columns)
            return col(column.name) if column else node
        return node

    try:
        if dialect != DIALECT:
            expression = sqlglot.parse_one(expression.sql(dialect=DIALECT), dialect=DIALECT)
        bound = scalar.canonical(expression.transform(bind))
        found = type_of(bound, by_name).type
    except (UnknownType, NotDeterministic) as error:
        draft.errors.append(Diagnostic("DF0113", str(error), place, "leave it out, or use functions that are known"))
        return None
    except Exception:  # sqlglot's, on what it parsed but cannot print
        draft.errors.append(Diagnostic("DF0113", "this expression is not understood", place, "leave it out"))
        return None
    if types and found not in types:
        message = f"a condition is true or false, this is {found.upper()}"
        draft.errors.append(Diagnostic("DF0307", message, place, "compare the value with something"))
        return None
    return bound
