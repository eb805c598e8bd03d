"""Stage 2b, bind views: sqlglot's AST of a query becomes algebra, names resolved as Spark resolves them.

A query block becomes  Project ( [GroupBy] ( [Project] ( [Select] ( joins ))))  with these promises to later stages:
column names are unique in every relation (a right side that clashes is renamed `alias_column`), grouping is by
columns, aggregates stand in GroupBy only. What is not understood is an error at its place, never a guess.

    views         the views of a file, in the order in which they read each other
    blocks        a query block: FROM, WHERE, GROUP BY, SELECT in that order
    relations     what stands in FROM: tables, subqueries, joins
    pivots        PIVOT and UNPIVOT behind what stands in FROM
    selection     the select list
    grouping      GROUP BY and aggregates
    expressions   scalar expressions and conditions over the rows of a Source
    scope         names: what a query can see, and how a name is looked up
"""

from .views import BoundView, bind_views

__all__ = ["BoundView", "bind_views"]
