"""Names of columns and folders, quoted."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SIGN = "__sign"
CHANGE_TYPE = "_change_type"
SHOWN = "__shown"  # says which rows of a stored view are the view's


def folder(name: str) -> str:
    """The directory name of a table, view or batch: unsafe characters percent-encoded, as in `a%2Fb`."""

    def encode(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode())

    return re.sub(r"^[_.]|[^\w.-]", encode, name)


def quote(name: str) -> str:
    """An identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def column(name: str, of: str = "") -> Column:
    """The column of exactly this name, whatever characters it has."""
    return F.col((quote(of) + "." if of else "") + quote(name))


def public(stored: DataFrame) -> DataFrame:
    """A stored view as its author sees it: without hidden rows and hidden columns."""
    rows = stored.where(column(SHOWN)) if SHOWN in stored.columns else stored
    return rows.select(*(column(name) for name in stored.columns if not name.startswith("__")))


def shown(values: dict[str, Any]) -> str:
    """A row, for a message."""
    return "(" + ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in values.items()) + ")"
