"""Facts about functions of arrays, maps and structs."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from .arithmetic import unify
from .facts import Fact, Nulls, common_of, first_of
from .scalar import text
from .types import ScalarType, UnknownType, element_of, fields_of, map_of


def _wrong(node: exp.Expr) -> UnknownType:
    return UnknownType(node, f"the type of {text(node)} is not known")


def _element(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    element = element_of(arguments[0].type)
    if element is None:
        raise _wrong(node)
    return element


def _held(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    """x[i], of an array or a map."""
    pair = map_of(arguments[0].type)
    return pair[1] if pair else _element(node, arguments)


def _array(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return f"array<{common_of(node, arguments)}>"


def _array_of_first(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return f"array<{arguments[0].type}>"


def _same_arrays(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    types = {argument.type for argument in arguments}
    if len(types) != 1:
        raise UnknownType(node, f"{text(node)}: the arrays have different types")
    return arguments[0].type


def _with_element(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    element = unify(node, [_element(node, arguments), arguments[1].type])
    return f"array<{element}>"


def _map(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    parts = [element_of(argument.type) for argument in arguments]
    if len(parts) != 2 or None in parts:
        raise _wrong(node)
    return f"map<{parts[0]},{parts[1]}>"


def _keys_or_values(which: int) -> Fact:
    def rule(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
        pair = map_of(arguments[0].type)
        if pair is None:
            raise _wrong(node)
        return f"array<{pair[which]}>"

    return Fact(rule)


def struct_type(node: exp.Expr, arguments: Sequence[ScalarType]) -> ScalarType:
    """A struct built of named values."""
    if not all(isinstance(part, exp.PropertyEQ) for part in node.expressions):
        raise _wrong(node)
    named = zip(node.expressions, arguments, strict=True)
    return ScalarType(f"struct<{','.join(f'{part.this.name}:{argument.type}' for part, argument in named)}>", False)


def field_type(node: exp.Dot, struct: ScalarType) -> ScalarType:
    """A field of a struct."""
    fields = fields_of(struct.type) or {}
    found = next((kind for name, kind in fields.items() if name.lower() == node.expression.name.lower()), None)
    if found is None:
        raise UnknownType(node, f"{text(node.this)} has no field {node.expression.name}")
    return ScalarType(found, True)


BY_CLASS: dict[type[exp.Expr], Fact] = {
    exp.Bracket: Fact(_held, Nulls.ALWAYS),
    exp.Array: Fact(_array, Nulls.NEVER),
    exp.ArraySize: Fact("int"),
    exp.ArrayContains: Fact("boolean", Nulls.ALWAYS),
    exp.ArraySort: Fact(first_of),
    exp.ArrayDistinct: Fact(first_of),
    exp.ArrayRemove: Fact(first_of, Nulls.ALWAYS),
    exp.ArraySlice: Fact(first_of),
    exp.ArrayMax: Fact(_element, Nulls.ALWAYS),
    exp.ArrayMin: Fact(_element, Nulls.ALWAYS),
    exp.ArrayToString: Fact("string", Nulls.ALWAYS),
    exp.ArrayPosition: Fact("bigint"),
    exp.ArrayIntersect: Fact(_same_arrays),
    exp.ArrayExcept: Fact(_same_arrays),
    exp.ArrayAppend: Fact(_with_element),
    exp.ArrayPrepend: Fact(_with_element),
    exp.Flatten: Fact(_element, Nulls.ALWAYS),
    exp.GenerateSeries: Fact(_array_of_first),
    exp.RegexpSplit: Fact("array<string>"),
    exp.RegexpExtractAll: Fact("array<string>"),
    exp.VarMap: Fact(_map, Nulls.NEVER),
    exp.Map: Fact(_map),
    exp.MapKeys: _keys_or_values(0),
    exp.MapContainsKey: Fact("boolean", Nulls.ALWAYS),
    exp.StrToMap: Fact("map<string,string>"),
}

BY_NAME: dict[str, Fact] = {
    "cardinality": Fact("int"),
    "array_union": Fact(_same_arrays),
    "arrays_overlap": Fact("boolean", Nulls.ALWAYS),
    "array_repeat": Fact(_array_of_first),
    "map_values": _keys_or_values(1),
}
