"""The grouping sets that GROUP BY lists: GROUPING SETS, CUBE, ROLLUP, and combinations, as lists of expressions."""

from __future__ import annotations

from itertools import combinations, product

from sqlglot import exp

Sets = list[list[exp.Expr]]


def listed_keys(group: exp.Group) -> list[exp.Expr]:
    """All expressions that are grouped by, in the order in which they are first written."""
    keys: list[exp.Expr] = []
    for element in _elements(group):
        if isinstance(element, exp.GroupingSets):
            keys += [key for part in element.expressions for key in _keys_of(part)]
        elif isinstance(element, exp.Cube | exp.Rollup):
            keys += [key for part in element.expressions for key in _unpacked(part)]
        else:
            keys.append(element)
    return list(dict.fromkeys(keys))


def grouping_sets(group: exp.Group) -> Sets:
    """The sets, one for every way to take one set of each element of GROUP BY."""
    if given := group.args.get("grouping_sets"):  # GROUP BY a, b GROUPING SETS (…): the list before only orders
        return [chosen for element in given for chosen in _sets(element)]
    return [[key for part in parts for key in part] for parts in product(*map(_sets, _elements(group)))]


def _elements(group: exp.Group) -> list[exp.Expr]:
    """What GROUP BY lists; WITH ROLLUP and WITH CUBE take all of it."""
    elements = list(group.expressions)
    for part in ("rollup", "cube"):
        for element in group.args.get(part) or []:
            if element.expressions:
                elements.append(element)
            else:
                elements = [type(element)(expressions=elements)]
    return elements + list(group.args.get("grouping_sets") or [])


def _keys_of(part: exp.Expr) -> list[exp.Expr]:
    return list(dict.fromkeys(key for chosen in _sets(part) for key in chosen))


def _sets(element: exp.Expr) -> Sets:
    match element:
        case exp.GroupingSets():
            return [chosen for part in element.expressions for chosen in _sets(part)]
        case exp.Rollup():
            parts = [_unpacked(part) for part in element.expressions]
            return [_flat(parts[:length]) for length in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_unpacked(part) for part in element.expressions]
            lengths = range(len(parts), -1, -1)
            return [_flat(list(chosen)) for length in lengths for chosen in combinations(parts, length)]
    return [_unpacked(element)]


def _unpacked(part: exp.Expr) -> list[exp.Expr]:
    match part:
        case exp.Tuple():
            return list(part.expressions)
        case exp.Paren(this=inner):
            return [inner]
    return [part]


def _flat(parts: Sets) -> list[exp.Expr]:
    return [key for part in parts for key in part]
