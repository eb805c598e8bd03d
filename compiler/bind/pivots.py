"""PIVOT and UNPIVOT behind what stands in FROM."""

from __future__ import annotations

from sqlglot import exp

from .scope import Binder, Source


def bind_pivot(binder: Binder, source: Source, pivot: exp.Pivot) -> Source:
    """The rows of a source, pivoted or unpivoted, under the pivot's alias.

    After joins the source is the whole of FROM so far, as in Spark, wherever sqlglot hangs the pivot.
    """
    raise binder.unsupported("UNPIVOT" if pivot.args.get("unpivot") else "PIVOT", pivot)
