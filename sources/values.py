"""Values of columns from their text, by the types that the view file declares."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

Reader = Callable[[str], Any]


def _timestamp(text: str) -> dt.datetime:
    """Without a time zone; one that has any is brought to UTC."""
    read = dt.datetime.fromisoformat(text)
    return read if read.tzinfo is None else read.astimezone(dt.UTC).replace(tzinfo=None)


_READERS: dict[str, Reader] = {
    "boolean": lambda text: text in ("t", "true"),
    "date": dt.date.fromisoformat,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp,
    "float": float,
    "double": float,
    "string": str,
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": int,
}


def reader(spark_type: str) -> Reader:
    """Reads the text of a value of this type."""
    kind = spark_type.partition("(")[0]
    if kind == "decimal":
        return Decimal
    return _READERS.get("string" if kind in ("varchar", "char") else kind, str)
