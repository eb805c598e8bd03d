"""The views of a file, in the order in which they read each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from ..algebra import Item, Ref, Rel, Scan, col
from ..catalog import Catalog
from ..properties import schema
from ..prune import project, prune
from ..read import CreateView, place_of
from ..schema import check_name
from ..source import Diagnostic, InputError
from .blocks import bind_query
from .scope import Binder, Environment, Output


@dataclass(frozen=True, slots=True)
class BoundView:
    """A view as algebra over tables and other maintained views."""

    name: str
    rel: Rel
    statement: CreateView = field(compare=False)
    warnings: tuple[Diagnostic, ...] = ()
    hidden_for: str | None = None  # the view that this one is a part of, if it is not the author's
    whole: Rel | None = None  # the author's query, where parts of it are hidden views


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
            binder = Binder(catalog, view.span, bind_query)
            rel = _bind_view(binder, environment, view)
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
            bound.append(BoundView(view.name, rel, view, tuple(dict.fromkeys(binder.warnings))))
    return tuple(bound), tuple(ordered), errors


def _reads(view: CreateView, pending: Mapping[str, CreateView]) -> list[str]:
    """The views that a query reads: a common table expression hides a view of its name where it is in sight."""
    names = (table.name.casefold() for table in view.query.find_all(exp.Table) if not _is_cte(table))
    return [name for name in dict.fromkeys(names) if name in pending]


def _is_cte(table: exp.Table) -> bool:
    name = table.name.casefold()
    inside: exp.Expr = table
    query: exp.Expr | None = table.parent
    while query is not None:
        with_ = query.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            if cte is inside:
                break  # it sees those before it
            if cte.alias.casefold() == name:
                return True
        inside, query = (inside if isinstance(query, exp.With) else query), query.parent
    return False


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


def _bind_view(binder: Binder, environment: Environment, view: CreateView) -> Rel:
    bound = binder.query(view.query, environment)
    outputs = bound.outputs
    if view.column_names:
        if len(view.column_names) != len(outputs):
            message = f"the view names {len(view.column_names)} columns, its query gives {len(outputs)}"
            raise binder.fail("DF0203", message, view.column_names[0])
        outputs = tuple(Output(identifier.name, identifier) for identifier in view.column_names)
    binder.require_names(outputs)
    errors: list[Diagnostic] = []
    seen: set[str] = set()
    for output in outputs:
        place = place_of(output.node, view.span)
        check_name(output.name, place, errors)
        if output.name.casefold() in seen:
            message = f"two columns of the view are called {output.name}"
            errors.append(Diagnostic("DF0204", message, place, "rename one with AS"))
        seen.add(output.name.casefold())
    if errors:
        raise InputError(errors)
    renamed = tuple(Item(output.name, col(old)) for output, old in zip(outputs, bound.rel.names, strict=True))
    return prune(project(bound.rel, renamed))
