"""What a fact about a scalar function says: the type that it gives, and when it may give NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from .arithmetic import unify
from .types import ScalarType


class Nulls(Enum):
    """When a function may give NULL."""

    ANY = "if one of its arguments may"
    ALL = "if all of its arguments may"
    ALWAYS = "whatever its arguments"
    NEVER = "never"

    def of(self, arguments: Sequence[ScalarType]) -> bool:
        match self:
            case Nulls.ANY:
                return any(argument.nullable for argument in arguments)
            case Nulls.ALL:
                return all(argument.nullable for argument in arguments)
            case Nulls.ALWAYS:
                return True
            case Nulls.NEVER:
                return False


TypeRule = Callable[[exp.Expr, Sequence[ScalarType]], str]


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a function: the type it gives, by name or by rule, and when it may give NULL."""

    gives: str | TypeRule
    nulls: Nulls = Nulls.ANY


def common_of(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return unify(node, [argument.type for argument in arguments])


def first_of(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return arguments[0].type
