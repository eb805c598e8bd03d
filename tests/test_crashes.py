"""Processes that die: the state is the old one or the new one, and the same command finishes the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltafold.codegen.emit import emit, write
from deltafold.compiler.pipeline import compile_text
from deltafold.runner import load_scripts
from house import AFTER, MIXED, START, House, rows_of, w
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Killed(BaseException):
    """Stands for the end of the process: nothing in the runtime catches it."""


class Killer:
    """Ends the run in place of its n-th change of anything on disk; a file has then been written by half."""

    STEPS = (
        (w.LocalFiles, "create"),
        (w.LocalFiles, "replace"),
        (w.LocalFiles, "remove"),
        (w.Storage, "write_parquet"),
        (w.Refresh, "_run_delta"),
        (w.Refresh, "_write"),
    )

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left = 0
        for owner, name in self.STEPS:
            patch.setattr(owner, name, self._deadly(name, getattr(owner, name)))

    def _deadly(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def work_or_die(owner: Any, *arguments: Any) -> Any:
            if name == "_write" and owner.format == "parquet":
                return work(owner, *arguments)  # its write_parquet is counted
            self.left -= 1
            if self.left:
                return work(owner, *arguments)
            if name == "write_parquet":
                path = Path(owner.path(arguments[0]).removeprefix("file:"))
                path.mkdir(parents=True, exist_ok=True)
                (path / "part-00000-half.parquet").write_bytes(b"PAR1 and half a file")
            raise Killed

        return work_or_die


def test_killed_at_every_step(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process after the other dies, each at a later step; a reader sees the old rows until it sees the new."""
    house.batch("b", MIXED)
    old = Counter([("x", 2), ("y", 2), (None, 3)])
    deaths = {"propagate": 0, "refresh": 0}
    with monkeypatch.context() as patch:
        killer = Killer(patch)
        for name, command in (("propagate", house.propagate), ("refresh", house.refresh)):
            while True:
                done = deaths[name]
                # A refresh of Delta tables goes on where the last one died, all else begins again.
                killer.left = min(done + 1, 2) if (name, house.format) == ("refresh", "delta") else done + 1
                try:
                    command("b")
                    break
                except Killed:
                    deaths[name] += 1
                    assert w.status(house.root)["applied"] or house.rows("by_city") == old
    assert deaths["propagate"] == 5  # the old marker, three deltas, the new marker
    assert deaths["refresh"] >= 5  # three views, a table, the state
    house.require(AFTER)


def test_crash_then_another_batch(house: House) -> None:
    """What a dead refresh left is not taken for the work of the next batch, nor kept under it."""
    house.batch("b", MIXED)
    house.propagate("b")
    with pytest.raises(RuntimeError, match="crash"):
        house.refresh("b", crash_after=3)
    house.batch("c", [("c", 6, "c", "insert")])
    house.run("c")
    house.require([*START, ("c", 6, "c")])
    with pytest.raises(w.WarehouseError, match="propagate it again"):
        house.refresh("b")
    house.run("b")
    house.require([*AFTER, ("c", 6, "c")])


def test_a_batch_written_anew_after_a_crash(house: House) -> None:
    """What a dead refresh merged of other changes is not taken for the work of these."""
    house.batch("b", MIXED)
    house.propagate("b")
    with pytest.raises(RuntimeError, match="crash"):
        house.refresh("b", crash_after=2)
    house.batch("b", [("c", 6, "c", "insert")])
    house.run("b")
    house.require([*START, ("c", 6, "c")])


def test_crash_between_propagate_and_marker(plain: House, monkeypatch: pytest.MonkeyPatch) -> None:
    plain.batch("b", MIXED)
    plain.propagate("b")
    with monkeypatch.context() as patch:
        patch.setattr(w.Propagation, "done", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            plain.propagate("b")
    with pytest.raises(w.WarehouseError, match="never propagated"):
        plain.refresh("b")
    plain.run("b")
    plain.require(AFTER)


VIEWS = """
CREATE TABLE t (k INT, x INT);
CREATE VIEW v AS SELECT k, SUM(x) AS s FROM t GROUP BY k;
"""


def test_kill_9_and_the_same_command_again(spark: SparkSession, tmp_path: Path) -> None:
    compiled, root = tmp_path / "compiled", str(tmp_path / "w")
    write(emit(compile_text(VIEWS), "parquet"), compiled)
    spark.createDataFrame([(1, 2), (None, 3)], "k INT, x INT").write.parquet(f"{root}/tables/t")
    rows = spark.createDataFrame([(1, 5, "insert"), (None, 3, "delete")], "k INT, x INT, _change_type STRING")
    rows.write.parquet(f"{root}/changes/b/t")
    scripts = load_scripts(compiled)
    scripts.initialize(spark, root)
    scripts.propagate(spark, root, "b")
    dies = "import os, signal, warehouse as w, refresh as r; w.commit_state = lambda *_: os.kill(os.getpid(), 9); "
    run = "r.refresh(w.session('dies', 'parquet'), os.environ['ROOT'], 'b')"
    environment = {**os.environ, "ROOT": root, "PYTHONPATH": str(compiled), "SPARK_LOCAL_IP": "127.0.0.1"}
    killed = subprocess.run([sys.executable, "-c", dies + run], env=environment, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert rows_of(w.read_view(spark, root, "v")) == Counter([(1, 2), (None, 3)])
    alone = [sys.executable, str(compiled / "refresh.py"), "--warehouse", root, "--batch", "b"]
    again = subprocess.run(alone, env=environment, check=False, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr[-2000:]
    assert "view v: 0 inserted, 1 updated, 1 deleted" in again.stdout
    assert rows_of(w.read_view(spark, root, "v")) == Counter([(1, 7)])
    assert rows_of(w.read_table(spark, root, "t")) == Counter([(1, 2), (1, 5)])
