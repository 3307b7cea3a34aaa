# SPDX-License-Identifier: BSD-3-Clause
"""Where a fabric keeps its files, and whether the process that carries it is alive.

/tmp/ib-fabric-UID/NAME/ is short on purpose: a unix socket's path ends at 107 characters.
It is owned by the user who ran `up` and never trusted otherwise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import re
import select
import shutil
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import FabricError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
DEFAULT_NAME = "default"


@dataclasses.dataclass(frozen=True)
class ProcessId:
    """A process, told apart from a later one with the same number and from another boot's."""

    pid: int
    start: int
    boot: str

    @staticmethod
    def of(pid: int) -> ProcessId | None:
        """The identity of a running process, None if there is none."""
        start = _start_time(pid)
        return None if start is None else ProcessId(pid, start, _boot_id())

    def open(self) -> int | None:
        """A pidfd of exactly this process, None when it has ended. The caller closes it."""
        if self.boot != _boot_id():
            return None
        try:
            fd = os.pidfd_open(self.pid)
        except OSError as error:
            if error.errno == errno.ESRCH:
                return None
            raise
        # The number may have been taken by another process before the pidfd was opened.
        if _start_time(self.pid) != self.start or _ended(fd, 0.0):
            os.close(fd)
            return None
        return fd

    def alive(self) -> bool:
        fd = self.open()
        if fd is None:
            return False
        os.close(fd)
        return True

    def kill(self, deadline_s: float) -> bool:
        """SIGKILL, then waits for the end; False if it has not ended in time."""
        fd = self.open()
        if fd is None:
            return True
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            return _ended(fd, deadline_s)
        finally:
            os.close(fd)


def _ended(pidfd: int, deadline_s: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(deadline_s * 1000))


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _start_time(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # Field 22; the command name (field 2) may contain spaces and parentheses.
    return int(text[text.rindex(")") + 2 :].split()[19])


class FabricDir:
    """The state directory of one fabric, by its name."""

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise FabricError(
                f"bad fabric name {name!r}: 1 to 40 letters, digits, '.', '_' or '-', "
                "beginning with a letter or digit"
            )
        self.name = name
        self.root = base_dir() / name
        self.log = self.root / "log"
        self.net = self.root / "net"
        self.etc_hosts = self.root / "hosts"
        self.pids = self.root / "pid"
        self.control = self.root / "control"
        self.softhca = self.root / "softhca"
        self.run = self.root / "run"
        self.rsh = self.root / "rsh"
        self.hostfile = self.root / "hostfile"

    def create(self) -> None:
        """Makes the directories; the fabric's users must be able to pass through them."""
        for path in (self.root, self.log, self.pids, self.softhca, self.run):
            path.mkdir(exist_ok=True)
            path.chmod(0o755)

    def remove(self) -> None:
        """Removes what `create` and the fabric left behind."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self.root.exists():
            raise FabricError(f"cannot remove {self.root}: remove it by hand, then try again")

    def save(self, file: str, value: Any) -> None:
        """Writes a JSON file of the state directory atomically."""
        temporary = self.root / f".{file}.tmp"
        temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        temporary.rename(self.root / file)

    def load(self, file: str) -> Any:
        """Reads a JSON file of the state directory; None if absent or cut off."""
        try:
            return json.loads((self.root / file).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def init(self) -> ProcessId | None:
        """The identity of the fabric's init as `up` recorded it."""
        value: Any = self.load("init.json")
        try:
            return ProcessId(int(value["pid"]), int(value["start"]), str(value["boot"]))
        except (TypeError, KeyError, ValueError):
            return None

    def alive(self) -> bool:
        init = self.init()
        return init is not None and init.alive()

    @contextlib.contextmanager
    def lock(self, deadline_s: float = 60.0) -> Iterator[None]:
        """Keeps other `up` and `down` of the same name out. The lock's file goes with the fabric."""
        path = base_dir() / f"{self.name}.lock"
        fd = _lock(path, self.name, deadline_s)
        try:
            yield
        finally:
            if not self.root.exists():
                path.unlink(missing_ok=True)
            os.close(fd)


def _lock(path: Path, name: str, deadline_s: float) -> int:
    """The locked descriptor of the file that is at `path` now, not of one removed meanwhile."""
    end = time.monotonic() + deadline_s
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.stat(path), os.fstat(fd)):
                return fd
        except FileNotFoundError:
            pass  # removed between the two looks at it
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(fd)
                raise FabricError(
                    f"another 'ib-fabric up' or 'down' of fabric {name} has been at work "
                    f"for {deadline_s:.0f} s: wait for it or end it"
                ) from None
            time.sleep(0.05)
        os.close(fd)


def base_dir() -> Path:
    """/tmp/ib-fabric-UID, made if absent, refused if somebody else could have made it."""
    path = Path(f"/tmp/ib-fabric-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o755)
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o022:
        raise FabricError(f"{path} is not a directory that only you can write: remove it")
    return path


def all_fabrics() -> list[FabricDir]:
    """Every fabric of this user that has a state directory, by name."""
    return [
        FabricDir(entry.name)
        for entry in sorted(base_dir().iterdir())
        if entry.is_dir() and _NAME.fullmatch(entry.name)
    ]
