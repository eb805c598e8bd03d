"""The few file operations that a warehouse needs: of this machine, or of any file system that Hadoop knows."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from typing import Any, Protocol, cast

from pyspark.sql import SparkSession

from .errors import WarehouseError


class Files(Protocol):
    """The few file operations that a warehouse needs; paths are relative to its root."""

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted; none where there is no such directory."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""

    def read(self, path: str) -> str:
        """The text of a file."""

    def replace(self, path: str, text: str) -> None:
        """Write a file, over an older one if there is one."""

    def create(self, path: str, text: str) -> bool:
        """Write a file as a whole or not at all; False if there is one already."""

    def remove(self, path: str) -> None:
        """Remove a file or a directory with all in it, if there."""

    def listing(self, path: str) -> list[tuple[str, int, int]]:
        """Every file below a directory: path below it, length, time of modification; sorted."""


class LocalFiles:
    """Files of this machine."""

    def __init__(self, root: str) -> None:
        self.root = root

    def _path(self, path: str) -> str:
        return os.path.join(self.root, path)

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def read(self, path: str) -> str:
        with open(self._path(path), encoding="utf-8") as file:
            return file.read()

    def _temporary(self, path: str, text: str) -> str:
        target = self._path(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        temporary = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{uuid.uuid4().hex}.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return temporary

    def replace(self, path: str, text: str) -> None:
        os.replace(self._temporary(path, text), self._path(path))

    def create(self, path: str, text: str) -> bool:
        temporary = self._temporary(path, text)
        try:
            os.link(temporary, self._path(path))  # unlike rename, never overwrites
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        return True

    def remove(self, path: str) -> None:
        target = self._path(path)
        if os.path.isdir(target):
            shutil.rmtree(target)
        elif os.path.exists(target):
            os.unlink(target)

    def listing(self, path: str) -> list[tuple[str, int, int]]:
        top = self._path(path)
        files = [os.path.join(where, name) for where, _, names in os.walk(top) for name in names]
        stats = [(os.path.relpath(file, top), os.stat(file)) for file in files]
        return sorted((name, stat.st_size, stat.st_mtime_ns // 1_000_000) for name, stat in stats)


class HadoopFiles:
    """Files of any file system that Hadoop knows.

    `create` is as atomic as the file system's rename: on HDFS it is; on an object store without an atomic rename,
    only one process at a time may refresh a warehouse.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.jvm = cast("Any", spark._jvm)
        configuration = java_session(spark).sessionState().newHadoopConf()
        self.root = root
        self.system = self._path("").getFileSystem(configuration)
        self.context = self.jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path("").toUri(), configuration)

    def _path(self, path: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}" if path else self.root)

    def names(self, path: str) -> list[str]:
        target = self._path(path)
        if not self.system.exists(target) or not self.system.getFileStatus(target).isDirectory():
            return []
        return sorted(status.getPath().getName() for status in self.system.listStatus(target))

    def exists(self, path: str) -> bool:
        return bool(self.system.exists(self._path(path)))

    def read(self, path: str) -> str:
        stream = self.system.open(self._path(path))
        try:
            return str(self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _write(self, target: Any, text: str) -> None:
        stream = self.system.create(target, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def replace(self, path: str, text: str) -> None:
        self._write(self._path(path), text)

    def create(self, path: str, text: str) -> bool:
        target = self._path(path)
        temporary = self.jvm.org.apache.hadoop.fs.Path(
            target.getParent(), f".{target.getName()}.{uuid.uuid4().hex}.tmp"
        )
        self._write(temporary, text)
        options = self.jvm.java.lang.reflect.Array.newInstance(
            self.jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename"), 0
        )
        try:
            self.context.rename(temporary, target, options)
        except Exception:
            self.system.delete(temporary, False)
            if self.system.exists(target):
                return False
            raise
        return True

    def remove(self, path: str) -> None:
        self.system.delete(self._path(path), True)

    def listing(self, path: str) -> list[tuple[str, int, int]]:
        found = []
        if self.exists(path):
            top = self.system.resolvePath(self._path(path)).toString()
            files = self.system.listFiles(self._path(path), True)
            while files.hasNext():
                status = files.next()
                name = status.getPath().toString()[len(top) :].lstrip("/")
                found.append((name, int(status.getLen()), int(status.getModificationTime())))
        return sorted(found)


def java_session(spark: SparkSession) -> Any:
    session: Any = spark
    return session._jsparkSession


def located(spark: SparkSession | None, warehouse: str) -> tuple[str, Files]:
    """The full path of a warehouse, and its files. Without a session, a directory of this machine."""
    warehouse = str(warehouse)
    if warehouse.startswith("catalog:"):
        raise WarehouseError(f"{warehouse}: tables of a catalog cannot be a warehouse yet; give a directory or a URI")
    if spark is None:
        root = os.path.abspath(re.sub(r"^file:(//)?(?=/)", "", warehouse))
        return root, LocalFiles(root)
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(warehouse)
    system = path.getFileSystem(java_session(spark).sessionState().newHadoopConf())
    root = system.makeQualified(path).toString().rstrip("/")
    if root.startswith("file:/"):
        return root, LocalFiles("/" + root[len("file:") :].lstrip("/"))
    return root, HadoopFiles(spark, root)
