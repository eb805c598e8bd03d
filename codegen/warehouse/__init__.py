"""What initialize.py, propagate.py and refresh.py share: a warehouse, its state, and how changes are applied to it.

A warehouse W is a directory or a URI that Hadoop understands:

    W/tables/TABLE          base tables
    W/changes/BATCH/TABLE   changed rows: the table's columns and _change_type
    W/views/VIEW            stored views
    W/deltas/BATCH/VIEW     summary-deltas, and _propagated.json once all of them are written
    W/_deltafold/state/     00000000.json, 00000001.json, ...: the newest is the committed state

A state says, for every table and view, which data it consists of: directories (format parquet) or the version of a
Delta table (format delta). Nothing that a committed state refers to is ever changed in place, so whoever reads through
the state sees all tables and views at one batch. A refresh writes beside it, then adds the next state file, in one
atomic step that fails if the file is there already.

Needs nothing but PySpark, and the Delta jars for the format delta.
"""

from .alone import has_delta, main, report_text, session, status_text
from .bags import with_changes
from .errors import BatchRefused, WarehouseError
from .initialization import Initialization
from .names import folder
from .propagation import Propagation
from .reading import read_table, read_view, status
from .refresh import Refresh

__all__ = [
    "BatchRefused",
    "Initialization",
    "Propagation",
    "Refresh",
    "WarehouseError",
    "folder",
    "has_delta",
    "main",
    "read_table",
    "read_view",
    "report_text",
    "session",
    "status",
    "status_text",
    "with_changes",
]
