"""Window functions of the oracle: ranks, offsets, and functions over a frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

Row = dict[str, Any]
Value = Callable[[exp.Expr, Row], Any]
Aggregate = Callable[[exp.Expr, list[Row]], Any]


def over(
    call: exp.Expr, ordered: list[Row], peers: list[tuple[Any, ...]], value: Value, aggregate: Aggregate
) -> list[Any]:
    """The value of a call with OVER for each row of an ordered partition; peers have equal sort keys."""
    function, ignore_nulls = call.this, False
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
        ignore_nulls = isinstance(function, exp.IgnoreNulls)
        function = function.this
    size = len(ordered)
    found = []
    for at, row in enumerate(ordered):
        first = peers.index(peers[at])
        last = size - peers[::-1].index(peers[at])
        match function:
            case exp.RowNumber():
                found.append(at + 1)
            case exp.Rank():
                found.append(first + 1)
            case exp.DenseRank():
                found.append(len(set(peers[: first + 1])))
            case exp.PercentRank():
                found.append(first / (size - 1) if size > 1 else 0.0)
            case exp.CumeDist():
                found.append(last / size)
            case exp.Ntile():
                found.append(_ntile(at, size, int(value(function.this, {}))))
            case exp.Lag() | exp.Lead():
                found.append(_offset(function, ordered, at, value, ignore_nulls))
            case _:
                frame = [ordered[i] for i in _frame(call, ordered, peers, at, value)]
                found.append(_over_frame(function, frame, value, aggregate, ignore_nulls, row))
    return found


def _ntile(at: int, size: int, buckets: int) -> int:
    small, larger = divmod(size, buckets)
    return at // (small + 1) + 1 if at < larger * (small + 1) else larger + (at - larger * (small + 1)) // small + 1


def _offset(function: exp.Expr, ordered: list[Row], at: int, value: Value, ignore_nulls: bool) -> Any:
    step = int(value(function.args["offset"], {})) if function.args.get("offset") else 1
    direction = -1 if isinstance(function, exp.Lag) else 1
    others = ordered[:at][::-1] if direction < 0 else ordered[at + 1 :]
    values = [value(function.this, other) for other in others]
    if ignore_nulls:
        values = [v for v in values if v is not None]
    if 0 < step <= len(values):
        return values[step - 1]
    default = function.args.get("default")
    return value(default, ordered[at]) if default else None


def _over_frame(
    function: exp.Expr, frame: list[Row], value: Value, aggregate: Aggregate, ignore_nulls: bool, row: Row
) -> Any:
    if not isinstance(function, exp.FirstValue | exp.LastValue | exp.NthValue | exp.First | exp.Last):
        return aggregate(function, frame)
    values = [value(function.this, other) for other in frame]
    if ignore_nulls:
        values = [v for v in values if v is not None]
    if isinstance(function, exp.NthValue):
        place = int(value(function.args["offset"], {})) - 1
    else:
        place = 0 if isinstance(function, exp.FirstValue | exp.First) else len(values) - 1
    return values[place] if 0 <= place < len(values) else None


def _frame(call: exp.Expr, ordered: list[Row], peers: list[tuple[Any, ...]], at: int, value: Value) -> list[int]:
    """The places of the rows in the frame of the row at a place."""
    spec = call.args.get("spec")
    everything = list(range(len(ordered)))
    if not call.args.get("order"):
        kind, bounds = "ROWS", (("UNBOUNDED", "PRECEDING"), ("UNBOUNDED", "FOLLOWING"))
    if spec is None and call.args.get("order"):
        kind, bounds = "RANGE", (("UNBOUNDED", "PRECEDING"), ("CURRENT ROW", ""))
    elif spec is not None:
        kind = spec.args["kind"]
        bounds = tuple((spec.args.get(side), spec.args.get(f"{side}_side")) for side in ("start", "end"))  # type: ignore[assignment]
        bounds = (bounds[0], bounds[1] if bounds[1][0] is not None else ("CURRENT ROW", ""))
    (start, start_side), (end, end_side) = bounds
    if kind == "ROWS":
        lowest = _row_bound(start, start_side, at, value, -1)
        highest = _row_bound(end, end_side, at, value, len(ordered))
        return [i for i in everything if lowest <= i <= highest]
    return [
        i
        for i in everything
        if _in_range(call, start, start_side, peers, at, i, value, True)
        and _in_range(call, end, end_side, peers, at, i, value, False)
    ]


def _row_bound(bound: Any, side: str | None, at: int, value: Value, unbounded: int) -> int:
    if bound == "UNBOUNDED":
        return unbounded
    if bound == "CURRENT ROW":
        return at
    step = int(value(bound, {}))
    return at - step if side == "PRECEDING" else at + step


def _in_range(
    call: exp.Expr,
    bound: Any,
    side: str | None,
    peers: list[tuple[Any, ...]],
    at: int,
    i: int,
    value: Value,
    start: bool,
) -> bool:
    if bound == "UNBOUNDED":
        return True
    here, there = peers[at][0], peers[i][0]
    if bound == "CURRENT ROW":
        return (
            peers.index(peers[at]) <= peers.index(peers[i])
            if start
            else peers.index(peers[i]) <= peers.index(peers[at])
        )
    if here is None or there is None:
        if here is None:
            return there is None
        before = peers.index(peers[i]) < peers.index(peers[at])
        return not before if start else before
    descending = bool(call.args["order"].expressions[0].args.get("desc"))
    step = value(bound, {}) * (-1 if side == "PRECEDING" else 1) * (-1 if descending else 1)
    limit = here + step
    return (
        bool((there >= limit) != descending or there == limit)
        if start
        else bool((there <= limit) != descending or there == limit)
    )
