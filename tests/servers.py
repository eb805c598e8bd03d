"""PostgreSQL servers on loopback, of Debian's packages, started for a test and stopped after it."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg


def binaries() -> Path | None:
    """The directory of initdb and postgres, if they are installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    return Path(on_path).resolve().parent if on_path and shutil.which("initdb") else None


@contextlib.contextmanager
def server_folder() -> Iterator[Path]:
    """A directory that the servers' user can reach: those that pytest gives are for their owner only."""
    with tempfile.TemporaryDirectory(prefix="deltafold-servers-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


class Server:
    """One server with a database of its own. It refuses to run as root, so it runs as `postgres` there."""

    def __init__(self, directory: Path, copied_from: Server | None = None) -> None:
        self.directory = directory
        self.data = directory / "data"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._bin = binaries()
        directory.mkdir(parents=True, exist_ok=True)
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(directory, account.pw_uid, account.pw_gid)
        if copied_from is None:
            initdb = [str(self._bin / "initdb") if self._bin else "initdb"]
            self._run(*initdb, "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        else:
            self._run("cp", "-a", str(copied_from.data), str(self.data))  # much faster than another initdb

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, user=self._user, cwd=self.directory, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")

    def start(self) -> None:
        settings = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        settings |= {"shared_buffers": "16MB", "max_connections": "40"}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [str(self._bin / "postgres") if self._bin else "postgres", "-D", str(self.data), *arguments],
            user=self._user,
            cwd=self.directory,
            stdout=subprocess.DEVNULL,
            stderr=(self.directory / "server.log").open("ab"),
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise RuntimeError((self.directory / "server.log").read_text())

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: cut off all sessions and stop; SIGQUIT: stop as if the machine had failed."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def run(self, sql: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql)  # type: ignore[call-overload]
