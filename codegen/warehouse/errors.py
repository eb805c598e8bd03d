"""What a job refuses, and how a refusal leaves a running Spark job."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator


class WarehouseError(Exception):
    """The warehouse is not in a condition for what was asked; the message says what to do."""


class BatchRefused(WarehouseError):
    """The changes of a batch contradict the base tables; nothing was committed."""


REFUSAL = re.compile(r"<deltafold\|(.*?)\|deltafold>", re.DOTALL)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Turn what raise_error raised inside a Spark job into BatchRefused."""
    try:
        yield
    except Exception as error:
        found = REFUSAL.search(str(error))
        if found:
            raise BatchRefused(f"refused, nothing was committed: {found[1]}") from None
        raise
