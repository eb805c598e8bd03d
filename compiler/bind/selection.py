"""The select list: stars expanded, every column with its name."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from .scope import Binder, Visible


@dataclass(frozen=True, slots=True)
class Selected:
    """A column of the select list: its name, what it is, and the node whose place errors point at."""

    name: str
    expression: exp.Expr
    node: exp.Expr


def expand_stars(binder: Binder, expressions: list[exp.Expr], scope: tuple[Visible, ...]) -> list[Selected]:
    items: list[Selected] = []
    for node in expressions:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            items += _star(binder, node, scope)
        elif isinstance(node, exp.Alias):
            items.append(Selected(node.alias, node.this, node))
        elif isinstance(node, exp.Column):
            items.append(Selected(node.name, node, node))
        else:
            raise binder.fail("DF0210", "this column has no name", node, "give it one: … AS name")
    return items


def _star(binder: Binder, node: exp.Expr, scope: tuple[Visible, ...]) -> list[Selected]:
    star = node if isinstance(node, exp.Star) else node.this
    if any(star.args.get(part) for part in ("except_", "replace", "rename")):
        raise binder.unsupported("* EXCEPT", node)
    table = node.table if isinstance(node, exp.Column) else ""
    chosen = [v for v in scope if (v.alias.casefold() == table.casefold() if table else not v.merged)]
    if not chosen:
        raise binder.fail("DF0209", f"there is no relation {table}", node)
    return [Selected(v.name, _reference(v), node) for v in chosen]


def _reference(visible: Visible) -> exp.Column:
    alias = exp.to_identifier(visible.alias, quoted=True)
    return exp.column(exp.to_identifier(visible.name, quoted=True), alias)
