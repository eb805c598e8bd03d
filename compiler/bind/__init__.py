"""Stage 2b, bind views: sqlglot's AST of a query becomes algebra, names resolved as Spark resolves them.

A query block becomes  Project ( [GroupBy] ( [Project] ( [Select] ( joins ))))  with these promises to later stages:
column names are unique in every relation (a right side that clashes is renamed `alias_column`), grouping is by
columns, aggregates stand in GroupBy only. What is not understood is an error at its place, never a guess.

    views         the views of a file, in the order in which they read each other
    blocks        a query block: FROM, WHERE, GROUP BY, SELECT, … in that order
    relations     what stands in FROM; joins; pivots
    conditions    WHERE and HAVING, with subqueries as semi and anti joins
    selection     the select list; names: what Spark calls a column without alias
    grouping      GROUP BY and aggregates; grouping_sets: CUBE, ROLLUP and the like
    windows       window functions
    ordering      ORDER BY and LIMIT
    sets          UNION, EXCEPT, INTERSECT
    subqueries    EXISTS, IN and scalar subqueries; correlation: those that read the rows around them
    expressions   scalar expressions and conditions
    rows          the rows that the expressions of a block are over, which subqueries and windows add columns to
    scope         names: what a query can see, and how a name is looked up
"""

from .views import BoundView, bind_views

__all__ = ["BoundView", "bind_views"]
