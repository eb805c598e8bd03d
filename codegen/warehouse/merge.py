"""The parts of a merge, in SQL over `old` and `sd`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from .errors import WarehouseError
from .names import literal, quote


class Merge:
    """The parts of a merge, in SQL over `old` and `sd`."""

    def __init__(
        self, view: str, schema: StructType, key: list[str], count: str, update: dict[str, str], insert: dict[str, str]
    ) -> None:
        self.view = view
        self.schema = schema
        self.key = key
        self.old_count = f"old.{quote(count)}"
        self.sd_count = f"sd.{quote(count)}"
        self.new_count = f"({self.old_count} + {self.sd_count})"
        rest = [name for name in schema.names if name not in key]
        missing = [name for name in rest if name not in update or name not in insert]
        if missing:
            raise WarehouseError(f"merge of {view}: no expression for {', '.join(missing)}")
        self.update = {name: f"({update[name]})" for name in rest}
        self.insert = {name: f"({insert[name]})" for name in rest}
        self.update[count] = self._guarded(self.new_count, self.update[count])
        self.insert[count] = self._guarded(self.sd_count, self.insert[count])

    def same_key(self) -> str:
        """The condition of the join."""
        return " AND ".join(f"old.{quote(name)} <=> sd.{quote(name)}" for name in self.key) or "true"

    # A count is never NULL, so that it is NULL only where the outer join found no row.

    def comes(self) -> str:
        """A row of the delta that the view does not have."""
        return f"{self.old_count} IS NULL AND NOT ({self.is_void()})"

    def stays(self) -> str:
        """A row of the view that the delta changes."""
        return f"{self.old_count} IS NOT NULL AND {self.sd_count} IS NOT NULL AND NOT ({self.dies()})"

    def dies(self) -> str:
        """A row of the view none of whose rows is left."""
        return f"coalesce({self.new_count} = 0, false)" if self.key else "false"

    def is_void(self) -> str:
        """A row of the delta whose changes cancel out, and that the view does not have."""
        return f"{self.old_count} IS NULL AND {self.sd_count} = 0" if self.key else "false"

    def _guarded(self, count: str, value: str) -> str:
        """The value, or an error that names the view and the key where the count is below zero."""
        parts = [
            f"concat({literal(name + '=')}, coalesce(CAST(sd.{quote(name)} AS STRING), 'NULL'))" for name in self.key
        ]
        row = "concat_ws(', ', " + ", ".join(parts) + ")" if parts else "'the only row'"
        text = literal(f"<deltafold|{self.view}: the batch deletes more rows than there are in the group (")
        return f"(CASE WHEN {count} < 0 THEN raise_error(concat({text}, {row}, ')|deltafold>')) ELSE {value} END)"

    def new_columns(self) -> list[Column]:
        """The columns of the new row, over the full outer join."""
        return [F.expr(self._new_value(field.name)).cast(field.dataType).alias(field.name) for field in self.schema]

    def _new_value(self, name: str) -> str:
        if name in self.key:
            return f"CASE WHEN {self.old_count} IS NULL THEN sd.{quote(name)} ELSE old.{quote(name)} END"
        return (
            f"CASE WHEN {self.sd_count} IS NULL THEN old.{quote(name)} "
            f"WHEN {self.old_count} IS NULL THEN {self.insert[name]} ELSE {self.update[name]} END"
        )

    def statement(self, target: str, source: str) -> str:
        """The MERGE of a Delta table."""
        names = self.schema.names
        types = {field.name: field.dataType for field in self.schema}
        sets = [f"{quote(name)} = {_cast(sql, types[name])}" for name, sql in self.update.items()]
        values = [_cast(self.insert.get(name, f"sd.{quote(name)}"), types[name]) for name in names]
        lines = [f"MERGE INTO {target} AS old USING {source} AS sd", f"ON {self.same_key()}"]
        if self.key:
            lines.append(f"WHEN MATCHED AND {self.new_count} = 0 THEN DELETE")
        lines.append(f"WHEN MATCHED THEN UPDATE SET {', '.join(sets)}")
        lines.append(f"WHEN NOT MATCHED{f' AND {self.sd_count} <> 0' if self.key else ''} THEN")
        lines.append(f"INSERT ({', '.join(map(quote, names))}) VALUES ({', '.join(values)})")
        return "\n".join(lines)


def _cast(sql: str, to: DataType) -> str:
    """A cast, but for nested types, whose field names need not be writable in SQL: MERGE itself casts those."""
    if isinstance(to, (StructType, ArrayType, MapType)):
        return sql
    return f"CAST({sql} AS {to.simpleString()})"
