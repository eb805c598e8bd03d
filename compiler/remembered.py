"""Answers about relations, remembered.

Relations are immutable, so what was found out about one stays true. They are large trees, and comparing two costs as
much as walking them: an answer is found by the identity of what was asked about, which the memory keeps alive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

MOST = 100_000  # answers; past that, all of them are forgotten

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


def remembered(function: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """The function, evaluated once for the same objects; its arguments must be immutable and given by position."""
    known: dict[tuple[int, ...], tuple[object, Answer]] = {}

    @wraps(function)
    def ask(*asked: Asked.args, **none: Asked.kwargs) -> Answer:
        key = tuple(map(id, asked))
        found = known.get(key)
        if found is None:
            if len(known) >= MOST:
                known.clear()
            found = known[key] = (asked, function(*asked, **none))
        return found[1]

    return ask
