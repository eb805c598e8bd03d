"""The select list: stars expanded, every column with its name, aliases of earlier columns written out.

Spark lets a column of the select list use the alias of an earlier one, unless FROM has a column of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from ..source import Diagnostic, InputError
from .expressions import is_aggregate
from .names import spark_name
from .scope import Binder, Visible, collecting

_MOST_NODES = 20_000  # aliases that use aliases may double an expression again and again


@dataclass(frozen=True, slots=True)
class Selected:
    """A column of the select list: its name, empty if not certain, what it is, and the node that errors point at."""

    name: str
    expression: exp.Expr
    node: exp.Expr


def select_list(binder: Binder, expressions: list[exp.Expr], scope: tuple[Visible, ...]) -> list[Selected]:
    """The columns of a query block."""
    items: list[Selected] = []
    errors: list[Diagnostic] = []
    aliases: dict[str, exp.Expr] = {}
    for node in expressions:
        with collecting(errors):
            if _is_star(node):
                items += _star(binder, node, scope)
                continue
            item = _named(binder, node)
            expression = with_aliases(item.expression, aliases, lambda column: binder.find(column.this, scope) is None)
            if expression is not item.expression and sum(1 for _ in expression.walk()) > _MOST_NODES:
                raise binder.fail("DF0007", "aliases that use aliases make this too long", node, "use a subquery")
            items.append(Selected(item.name, expression, node))
            if isinstance(node, exp.Alias):
                aliases[item.name.casefold()] = expression
    if errors:
        raise InputError(errors)
    return items


def with_aliases(
    expression: exp.Expr, aliases: Mapping[str, exp.Expr], chosen: Callable[[exp.Column], bool]
) -> exp.Expr:
    """The expression with aliases replaced by what they stand for, where they are chosen to be meant."""
    if not aliases:
        return expression

    def walk(node: exp.Expr, within_aggregate: bool) -> exp.Expr:
        if isinstance(node, exp.Column):
            meant = aliases.get(node.name.casefold()) if not node.table else None
            if meant is None or within_aggregate or not chosen(node):
                return node
            return exp.Paren(this=meant.copy()) if isinstance(meant, exp.Binary | exp.Unary) else meant.copy()
        if isinstance(node, exp.Query):
            return node
        changed: dict[str, object] = {}
        below = within_aggregate or (is_aggregate(node) and not isinstance(node.parent, exp.Window))
        for key, value in node.args.items():
            if isinstance(value, exp.Expr):
                new: object = walk(value, below)
                differs = new is not value
            elif isinstance(value, list):
                new = [walk(v, below) if isinstance(v, exp.Expr) else v for v in value]
                differs = any(a is not b for a, b in zip(new, value, strict=True))
            else:
                continue
            if differs:
                changed[key] = new
        if not changed:
            return node
        copy = node.copy()
        for key, new in changed.items():
            copy.set(key, new)
        return copy

    return walk(expression, False)


def _named(binder: Binder, node: exp.Expr) -> Selected:
    if isinstance(node, exp.Alias):
        return Selected(node.alias, node.this.unnest(), node)
    if isinstance(node, exp.Column):
        return Selected(node.name, node, node)
    return Selected(spark_name(node, binder.span.text) or "", node.unnest(), node)


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _star(binder: Binder, node: exp.Expr, scope: tuple[Visible, ...]) -> list[Selected]:
    star = node if isinstance(node, exp.Star) else node.this
    for part in ("replace", "rename"):
        if star.args.get(part):
            raise binder.unsupported(f"* {part.upper()}", node)
    table = node.table if isinstance(node, exp.Column) else ""
    chosen = [v for v in scope if (v.alias.casefold() == table.casefold() if table else not v.merged)]
    if not chosen:
        raise binder.fail("DF0209", f"there is no relation {table}" if table else "* of no columns", node)
    for left_out in star.args.get("except_") or []:
        column = left_out if isinstance(left_out, exp.Column) else exp.Column(this=left_out)
        found = binder.visible(column.this, tuple(chosen), column.table)
        chosen.remove(found)
    return [Selected(v.name, _reference(v), node) for v in chosen]


def _reference(visible: Visible) -> exp.Column:
    alias = exp.to_identifier(visible.alias, quoted=True) if visible.alias else None
    return exp.column(exp.to_identifier(visible.name, quoted=True), alias)
