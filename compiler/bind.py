"""Stage 2b, bind views: sqlglot's AST of a query becomes algebra, names resolved as Spark resolves them.

A query block becomes  Project ( [GroupBy] ( [Project] ( [Select] ( joins ))))  with these promises to later stages:
column names are unique in every relation (a right side that clashes is renamed `alias_column`), grouping is by
columns, aggregates stand in GroupBy only. What is not understood is an error at its place, never a guess.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from . import scalar
from .aggregates import FUNCTIONS, function_of
from .algebra import GroupBy, Item, Join, Measure, Project, Ref, Rel, Scan, Select, col
from .catalog import Catalog
from .properties import schema
from .prune import project, prune
from .read import CreateView, place_of
from .schema import check_name
from .source import Diagnostic, InputError, Span
from .typing import NotDeterministic, UnknownType, type_of


@dataclass(frozen=True, slots=True)
class BoundView:
    """A view as algebra over tables and other maintained views."""

    name: str
    rel: Rel
    statement: CreateView = field(compare=False)


@dataclass(frozen=True, slots=True)
class Visible:
    """A column that a query can name: by itself or behind the alias of its relation."""

    alias: str
    name: str  # as the user calls it
    column: str  # as the algebra calls it
    merged: bool = False  # by USING: the unqualified name means the left side's


Environment = Mapping[str, Rel]  # relations by case-folded name


def bind_views(
    catalog: Catalog, views: Iterable[CreateView]
) -> tuple[tuple[BoundView, ...], tuple[CreateView, ...], list[Diagnostic]]:
    """Binds the views in dependency order: a view may read views that stand before or after it.

    Gives the maintained views, the statements of all of them in that order, temporary ones too, and the errors.
    """
    errors: list[Diagnostic] = []
    tables = {t.name.casefold(): Scan(Ref(t.name), t.columns) for t in catalog.tables}
    pending: dict[str, CreateView] = {}
    for view in views:
        check_name(view.name, view.name_span, errors)
        if view.name.casefold() in tables or view.name.casefold() in pending:
            errors.append(Diagnostic("DF0201", f"the name {view.name} is taken", view.name_span, "rename the view"))
        else:
            pending[view.name.casefold()] = view
    environment: dict[str, Rel] = dict(tables)
    failed: set[str] = set()
    bound: list[BoundView] = []
    ordered = _in_dependency_order(pending, errors, failed)
    for view in ordered:
        if any(name in failed for name in _reads(view, pending)):
            failed.add(view.name.casefold())
            continue
        try:
            rel = _Binder(catalog, environment, view.span).view(view)
        except InputError as error:
            errors.extend(error.diagnostics)
            failed.add(view.name.casefold())
            continue
        except RecursionError:
            message = f"an expression of {view.name} nests too deeply"
            errors.append(Diagnostic("DF0007", message, view.name_span, "split it over several views"))
            failed.add(view.name.casefold())
            continue
        if view.temporary:
            environment[view.name.casefold()] = rel
        else:
            environment[view.name.casefold()] = Scan(Ref(view.name), schema(rel))
            bound.append(BoundView(view.name, rel, view))
    return tuple(bound), tuple(ordered), errors


def _reads(view: CreateView, pending: Mapping[str, CreateView]) -> list[str]:
    ctes = {cte.alias.casefold() for cte in view.query.find_all(exp.CTE)}
    names = (table.name.casefold() for table in view.query.find_all(exp.Table))
    return [name for name in dict.fromkeys(names) if name in pending and name not in ctes]


def _in_dependency_order(
    pending: Mapping[str, CreateView], errors: list[Diagnostic], failed: set[str]
) -> list[CreateView]:
    """A depth-first walk with its own stack: a long chain of views must not exhaust Python's."""
    ordered: list[CreateView] = []
    done: set[str] = set()
    for first in pending:
        path = {} if first in done else {first: iter(_reads(pending[first], pending))}
        while path:
            name, unread = next(reversed(path.items()))
            read_name = next(unread, None)
            if read_name is None:
                del path[name]
                done.add(name)
                ordered.append(pending[name])
            elif read_name in path:
                names = list(path)
                circle = names[names.index(read_name) :]
                if read_name not in failed:
                    shown = " reads ".join(pending[n].name for n in (*circle, read_name))
                    message = f"views read each other in a circle: {shown}"
                    place = pending[read_name].name_span
                    errors.append(Diagnostic("DF0202", message, place, "break the circle"))
                failed.update(circle)
            elif read_name not in done:
                path[read_name] = iter(_reads(pending[read_name], pending))
    return ordered


_ALLOWED_PARTS = {"expressions", "from_", "joins", "where", "group", "with_", "kind", "operation_modifiers", "hint"}
_PART_NAMES = {
    "having": "HAVING",
    "qualify": "QUALIFY",
    "distinct": "SELECT DISTINCT",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "order": "ORDER BY",
    "laterals": "LATERAL VIEW",
    "windows": "WINDOW",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
}
_GROUPINGS = {exp.GroupingSets: "GROUPING SETS", exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}


class _Binder:
    """Binds the query of one view."""

    def __init__(self, catalog: Catalog, environment: Environment, span: Span) -> None:
        self.catalog = catalog
        self.environment = environment
        self.span = span

    def fail(self, code: str, message: str, node: exp.Expr | None, remedy: str = "") -> InputError:
        return InputError([Diagnostic(code, message, place_of(node, self.span), remedy)])

    def unsupported(self, construct: str, node: exp.Expr | None, remedy: str = "") -> InputError:
        return self.fail("DF0301", f"{construct} is not supported in a view yet", node, remedy)

    # ---- a whole view

    def view(self, view: CreateView) -> Rel:
        rel, names = self.query(view.query, self.environment)
        outputs: list[tuple[str, exp.Expr | None]] = list(names)
        if view.column_names:
            if len(view.column_names) != len(outputs):
                message = f"the view names {len(view.column_names)} columns, its query gives {len(outputs)}"
                raise self.fail("DF0203", message, view.column_names[0])
            outputs = [(identifier.name, identifier) for identifier in view.column_names]
        errors: list[Diagnostic] = []
        seen: dict[str, str] = {}
        for name, node in outputs:
            check_name(name, place_of(node, self.span), errors)
            if name.casefold() in seen:
                message = f"two columns of the view are called {name}"
                errors.append(Diagnostic("DF0204", message, place_of(node, self.span), "rename one with AS"))
            seen[name.casefold()] = name
        if errors:
            raise InputError(errors)
        renamed = tuple(Item(name, col(old)) for (name, _), old in zip(outputs, rel.names, strict=True))
        return prune(project(rel, renamed))

    # ---- a query block

    def query(self, query: exp.Expr, environment: Environment) -> tuple[Rel, list[tuple[str, exp.Expr | None]]]:
        """The relation of a query and, for each of its columns in order, the user's name of it and its place."""
        if isinstance(query, exp.Subquery) and not query.args.get("joins"):
            return self.query(query.this, environment)
        if not isinstance(query, exp.Select):
            raise self.unsupported(type(query).__name__.upper(), query)
        for part, value in query.args.items():
            if value and part not in _ALLOWED_PARTS:
                node = value[0] if isinstance(value, list) else value
                construct = _PART_NAMES.get(part, part.rstrip("_").upper())
                raise self.unsupported(construct, node if isinstance(node, exp.Expr) else query)
        environment = self._with_ctes(query, environment)
        from_ = query.args.get("from_")
        if from_ is None:
            raise self.unsupported("a query without FROM", query)
        rel, scope = self._from(from_.this, query.args.get("joins") or [], environment)
        if where := query.args.get("where"):
            rel = Select(rel, self._condition(where.this, rel, scope))
        items = self._expand_stars(query.expressions, scope)
        for _, expression, _ in items:
            self._refuse_queries(expression)
        group = query.args.get("group")
        if group or any(_aggregates(expression) for _, expression, _ in items):
            return self._grouped(rel, scope, items, group)
        outputs = [(name, self.scalar(expression, rel, scope), node) for name, expression, node in items]
        names = _distinct_names([name for name, _, _ in outputs])
        projected = tuple(Item(unique, e) for unique, (_, e, _) in zip(names, outputs, strict=True))
        return Project(rel, projected), [(name, node) for name, _, node in outputs]

    def _with_ctes(self, query: exp.Select, environment: Environment) -> Environment:
        with_ = query.args.get("with_")
        if with_ is None:
            return environment
        if with_.args.get("recursive"):
            raise self.unsupported("WITH RECURSIVE", with_.expressions[0])
        extended = dict(environment)
        for cte in with_.expressions:
            extended[cte.alias.casefold()] = self._named_query(cte.this, extended, cte.args["alias"].columns)
        return extended

    def _named_query(self, query: exp.Expr, environment: Environment, columns: list[exp.Identifier]) -> Rel:
        rel, names = self.query(query, environment)
        outputs = [identifier.name for identifier in columns] or [name for name, _ in names]
        if len(outputs) != len(rel.names):
            raise self.fail("DF0203", "the column list does not fit the query", columns[0])
        if len({name.casefold() for name in outputs}) != len(outputs):
            raise self.fail("DF0204", "two columns of the subquery have one name", query, "rename one with AS")
        return project(rel, tuple(Item(n, col(o)) for n, o in zip(outputs, rel.names, strict=True)))

    # ---- FROM

    def _from(self, first: exp.Expr, joins: list[exp.Join], environment: Environment) -> tuple[Rel, list[Visible]]:
        rel, scope = self._relation(first, environment)
        for join in [*(first.args.get("joins") or []), *joins]:
            rel, scope = self._join(rel, scope, join, environment)
        return rel, scope

    def _relation(self, node: exp.Expr, environment: Environment) -> tuple[Rel, list[Visible]]:
        for part in ("pivots", "laterals", "sample", "version", "when"):
            if node.args.get(part):
                raise self.unsupported(_PART_NAMES.get(part, part.upper()), node)
        match node:
            case exp.Table(this=exp.Identifier()):
                if node.args.get("db"):
                    raise self.fail("DF0205", f"{node.sql(dialect='spark')}: a relation's name has one part", node)
                rel = environment.get(node.name.casefold())
                if rel is None:
                    shown = [r.ref.name if isinstance(r, Scan) else n for n, r in environment.items()]
                    raise self.fail(
                        "DF0206", f"there is no table or view {node.name}", node, _did_you_mean(node.name, shown)
                    )
            case exp.Subquery():
                rel = self._named_query(
                    node.this, environment, node.args["alias"].columns if node.args.get("alias") else []
                )
            case _:
                raise self.unsupported(type(node).__name__, node)
        alias = node.alias_or_name
        return rel, [Visible(alias, name, name) for name in rel.names]

    def _join(
        self, left: Rel, scope: list[Visible], join: exp.Join, environment: Environment
    ) -> tuple[Rel, list[Visible]]:
        words = " ".join(filter(None, (join.method, join.side, join.kind))).upper()
        if words not in ("", "INNER", "CROSS", "NATURAL", "NATURAL INNER"):
            raise self.unsupported(f"{words} JOIN", join)
        right, right_scope = self._relation(join.this, environment)
        for nested in join.this.args.get("joins") or []:
            right, right_scope = self._join(right, right_scope, nested, environment)
        aliases = {visible.alias.casefold() for visible in scope}
        if any(visible.alias and visible.alias.casefold() in aliases for visible in right_scope):
            raise self.fail(
                "DF0207", f"two relations are called {right_scope[0].alias}", join.this, "give one an alias"
            )
        right, right_scope = _rename_apart(right, right_scope, left.names)
        pairs: list[tuple[Visible, Visible]] = []
        using = list(join.args.get("using") or [])
        if words.startswith("NATURAL"):
            shared = [v.name for v in right_scope if any(w.name.casefold() == v.name.casefold() for w in scope)]
            using = [exp.to_identifier(name, quoted=True) for name in shared]
        for identifier in using:
            pairs.append((self._visible(identifier, scope), self._visible(identifier, right_scope)))
        equalities = tuple(exp.EQ(this=col(a.column), expression=col(b.column)) for a, b in pairs)
        merged = {b.column for _, b in pairs}
        both = scope + [Visible(v.alias, v.name, v.column, merged=v.merged or v.column in merged) for v in right_scope]
        joined = Join(left, right, scalar.canonical(scalar.conjunction(equalities)))
        if on := join.args.get("on"):
            joined = Join(left, right, self._condition(on, joined, both))
        return joined, both

    def _visible(self, identifier: exp.Expr, scope: list[Visible], table: str = "") -> Visible:
        name = identifier.name
        found = [
            v
            for v in scope
            if v.name.casefold() == name.casefold()
            and (v.alias.casefold() == table.casefold() if table else not v.merged)
        ]
        if len(found) > 1:
            owners = ", ".join(f"{v.alias}.{v.name}" for v in found)
            raise self.fail(
                "DF0208", f"{name} is ambiguous: {owners}", identifier, "put the relation's alias before it"
            )
        if not found:
            where = f" in {table}" if table else ""
            known = [v.name for v in scope if not table or v.alias.casefold() == table.casefold()]
            raise self.fail("DF0209", f"there is no column {name}{where}", identifier, _did_you_mean(name, known))
        return found[0]

    # ---- scalars

    def scalar(self, expression: exp.Expr, rel: Rel, scope: list[Visible]) -> exp.Expr:
        """Binds names and checks that the expression is one whose type and determinism are known."""
        for node in expression.find_all(exp.Subquery, exp.Exists, exp.Select, exp.Window, exp.Star, exp.Placeholder):
            raise self.unsupported(f"{_construct(node)} here", node)

        def bind(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column):
                if node.args.get("db"):
                    raise self.fail("DF0205", "a column's name has at most two parts", node)
                return col(self._visible(node.this, scope, node.table).column)
            return node

        bound = scalar.canonical(expression.transform(bind))
        try:
            type_of(bound, {column.name: column for column in schema(rel)})
        except NotDeterministic as error:
            raise self.fail("DF0302", str(error), expression, "a view's rows may depend on its tables only") from None
        except UnknownType as error:
            raise self.fail("DF0303", str(error), expression) from None
        return bound

    def _refuse_queries(self, expression: exp.Expr) -> None:
        """Aggregates within a subquery or a window are not aggregates of this query."""
        for node in expression.find_all(exp.Subquery, exp.Exists, exp.Select, exp.Window):
            raise self.unsupported(f"{_construct(node)} here", node)

    def _condition(self, expression: exp.Expr, rel: Rel, scope: list[Visible]) -> exp.Expr:
        for aggregate in _aggregates(expression):
            raise self.fail("DF0304", "an aggregate cannot stand in a condition", aggregate)
        bound = self.scalar(expression, rel, scope)
        kind = type_of(bound, {column.name: column for column in schema(rel)}).type
        if kind not in ("boolean", "void"):
            raise self.fail("DF0307", f"a condition is true or false, this is {kind.upper()}", expression)
        return bound

    def _expand_stars(
        self, expressions: list[exp.Expr], scope: list[Visible]
    ) -> list[tuple[str, exp.Expr, exp.Expr | None]]:
        """The select list as (name, expression, place)."""
        items: list[tuple[str, exp.Expr, exp.Expr | None]] = []
        for node in expressions:
            if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                star = node if isinstance(node, exp.Star) else node.this
                if any(star.args.get(part) for part in ("except_", "replace", "rename")):
                    raise self.unsupported("* EXCEPT", node)
                table = node.table if isinstance(node, exp.Column) else ""
                chosen = [v for v in scope if (v.alias.casefold() == table.casefold() if table else not v.merged)]
                if not chosen:
                    raise self.fail("DF0209", f"there is no relation {table}", node)
                items += [
                    (
                        v.name,
                        exp.column(exp.to_identifier(v.name, quoted=True), exp.to_identifier(v.alias, quoted=True)),
                        node,
                    )
                    for v in chosen
                ]
            elif isinstance(node, exp.Alias):
                items.append((node.alias, node.this, node))
            elif isinstance(node, exp.Column):
                items.append((node.name, node, node))
            else:
                raise self.fail("DF0210", "this column has no name", node, "give it one: … AS name")
        return items

    # ---- GROUP BY

    def _grouped(
        self,
        rel: Rel,
        scope: list[Visible],
        items: list[tuple[str, exp.Expr, exp.Expr | None]],
        group: exp.Group | None,
    ) -> tuple[Rel, list[tuple[str, exp.Expr | None]]]:
        keys = self._group_keys(rel, scope, items, group)
        by_text = {scalar.text(expression): name for name, expression in keys}
        computed = [Item(name, expression) for name, expression in keys if not isinstance(expression, exp.Column)]
        if computed:
            rel = Project(rel, (*(Item(name, col(name)) for name in rel.names), *computed))
        measures: dict[str, Measure] = {}
        taken = set(rel.names) | {name for name, _ in keys}
        projected: list[Item] = []
        for name, expression, node in items:
            bound = self._over_groups(expression, rel, scope, by_text, measures, taken, name, node)
            projected.append(Item(name, bound))
        names = _distinct_names([item.name for item in projected])
        grouped = GroupBy(rel, tuple(name for name, _ in keys), tuple(measures.values()))
        final = tuple(Item(unique, item.expression) for unique, item in zip(names, projected, strict=True))
        return Project(grouped, final), [(name, node) for name, _, node in items]

    def _group_keys(
        self,
        rel: Rel,
        scope: list[Visible],
        items: list[tuple[str, exp.Expr, exp.Expr | None]],
        group: exp.Group | None,
    ) -> list[tuple[str, exp.Expr]]:
        """The grouping columns, each with the bound expression it stands for."""
        if group is None:
            return []
        for part, value in group.args.items():
            if value and part != "expressions":
                raise self.unsupported(f"GROUP BY {part.replace('_', ' ').upper()}", group)
        keys: dict[str, tuple[str, exp.Expr]] = {}
        taken = set(rel.names)
        for node in group.expressions:
            if isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube):
                raise self.unsupported(f"GROUP BY {_GROUPINGS[type(node)]}", node)
            expression, wanted = node, ""
            if isinstance(node, exp.Literal) and not node.is_string:
                index = int(node.name) if node.name.isdigit() else 0
                if not 1 <= index <= len(items):
                    raise self.fail("DF0211", f"GROUP BY {node.name}: the select list has {len(items)} columns", node)
                wanted, expression, _ = items[index - 1]
            elif isinstance(node, exp.Column) and not node.table:
                known = any(v.name.casefold() == node.name.casefold() for v in scope)
                aliased = [item for item in items if item[0].casefold() == node.name.casefold()]
                if not known and aliased:
                    wanted, expression, _ = aliased[0]
            for aggregate in _aggregates(expression):
                raise self.fail("DF0304", "an aggregate cannot stand in GROUP BY", aggregate)
            bound = self.scalar(expression, rel, scope)
            if scalar.text(bound) in keys:
                continue
            if isinstance(bound, exp.Column):
                keys[scalar.text(bound)] = (bound.name, bound)
            else:
                spelled = next((n for n, e, _ in items if e == expression), "")
                name = _fresh(wanted or spelled or f"key_{len(keys) + 1}", taken)
                keys[scalar.text(bound)] = (name, bound)
        return list(keys.values())

    def _over_groups(
        self,
        expression: exp.Expr,
        rel: Rel,
        scope: list[Visible],
        keys: Mapping[str, str],
        measures: dict[str, Measure],
        taken: set[str],
        output: str,
        node: exp.Expr | None,
    ) -> exp.Expr:
        """A select item of a grouped query, over grouping columns and measures."""
        place = node if node is not None else expression

        def measure(call: exp.Expr) -> exp.Expr:
            function, argument = self._aggregate_call(call)
            for inner in _aggregates(argument) if argument is not None else ():
                raise self.fail("DF0305", "an aggregate cannot stand in an aggregate", inner)
            bound = None if argument is None else self.scalar(argument, rel, scope)
            text = f"{function}({'*' if bound is None else scalar.text(bound)})"
            if text not in measures:
                hint = (
                    output
                    if call is expression
                    else f"{function}_{bound.name}"
                    if bound is not None and bound.name
                    else function
                )
                measures[text] = Measure(_fresh(hint, taken), function, () if bound is None else (bound,))
            return col(measures[text].name)

        def walk(part: exp.Expr) -> exp.Expr:
            if _is_aggregate(part):
                return measure(part)
            if not part.find(exp.AggFunc) and not isinstance(part, exp.Literal | exp.Null | exp.Boolean | exp.DataType):
                if part.find(exp.Column) is None:
                    return part
                if not isinstance(part, exp.Identifier):
                    bound = self.scalar(part, rel, scope) if not isinstance(part, exp.If) else None
                    if bound is not None and scalar.text(bound) in keys:
                        return col(keys[scalar.text(bound)])
                    if isinstance(part, exp.Column):
                        raise self.fail(
                            "DF0306",
                            f"{part.name} is neither grouped by nor aggregated",
                            part if "start" in part.this.meta else place,
                            f"add it to GROUP BY, or aggregate it: MIN({part.name})",
                        )
            copy = part.copy()
            for key, value in list(part.args.items()):
                if isinstance(value, exp.Expr):
                    copy.set(key, walk(value))
                elif isinstance(value, list):
                    copy.set(key, [walk(v) if isinstance(v, exp.Expr) else v for v in value])
            return copy

        return scalar.canonical(walk(expression))

    def _aggregate_call(self, call: exp.Expr) -> tuple[str, exp.Expr | None]:
        if isinstance(call, exp.Filter):
            raise self.unsupported("FILTER", call, "aggregate a CASE expression: SUM(CASE WHEN … THEN … END)")
        function = function_of(call)
        if function is None:
            known = ", ".join(name.upper() for name in FUNCTIONS)
            raise self.unsupported(f"the aggregate {call.sql(dialect='spark').split('(')[0]}", call, f"known: {known}")
        argument = call.this
        if isinstance(argument, exp.Distinct):
            raise self.unsupported(f"{function.upper()}(DISTINCT …)", call)
        if call.expressions:
            raise self.unsupported(f"{function.upper()} of several arguments", call)
        return function, None if isinstance(argument, exp.Star) else argument


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup)


def _aggregates(expression: exp.Expr) -> list[exp.Expr]:
    return [node for node in expression.walk() if _is_aggregate(node)]


def _construct(node: exp.Expr) -> str:
    match node:
        case exp.Window():
            return "a window function"
        case exp.Star():
            return "*"
        case exp.Placeholder():
            return "a parameter"
    return "a subquery"


def _fresh(name: str, taken: set[str]) -> str:
    """The name, or the name with a number, so that no other column has it; it is taken from now on."""
    candidate, number = name, 2
    folded = {t.casefold() for t in taken}
    while candidate.casefold() in folded:
        candidate, number = f"{name}_{number}", number + 1
    taken.add(candidate)
    return candidate


def _distinct_names(names: list[str]) -> list[str]:
    taken: set[str] = set()
    return [_fresh(name, taken) for name in names]


def _rename_apart(rel: Rel, scope: list[Visible], taken: tuple[str, ...]) -> tuple[Rel, list[Visible]]:
    """Renames the columns of a join's right side that its left side has too."""
    used = set(taken) | set(rel.names)
    folded = {name.casefold() for name in taken}
    new_names = {v.column: _fresh(f"{v.alias}_{v.name}", used) for v in scope if v.column.casefold() in folded}
    if not new_names:
        return rel, scope
    items = tuple(Item(new_names.get(name, name), col(name)) for name in rel.names)
    renamed = [Visible(v.alias, v.name, new_names.get(v.column, v.column), v.merged) for v in scope]
    return project(rel, items), renamed


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    by_folded = {k.casefold(): k for k in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=2)
    if close:
        return "did you mean " + " or ".join(by_folded[c] for c in close) + "?"
    listed = ", ".join(list(by_folded.values())[:12])
    return f"there is: {listed}" if listed else ""
