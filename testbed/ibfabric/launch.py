# SPDX-License-Identifier: BSD-3-Clause
"""Makes the namespaces of a fabric and its init, and follows the init until it is ready."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from . import init, linux
from .errors import FabricError
from .spec import Spec
from .state import FabricDir, ProcessId
from .topology import Topology

_NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWPID
)
_MAPPED_IDS = 65536


def launch(
    place: FabricDir, what: Spec, topology: Topology, deadline_s: float, say: Callable[[str], None]
) -> None:
    """Starts the fabric and returns when it is ready; FabricError (and nothing left running)
    when it is not ready in `deadline_s`."""
    progress_read, progress_write = os.pipe()
    go_read, go_write = os.pipe()
    report_read, report_write = os.pipe()
    starter = os.fork()
    if starter == 0:
        for fd in (progress_read, go_write, report_read):
            os.close(fd)
        _starter(place, what, topology, progress_write, go_read, report_write)
    for fd in (progress_write, go_read, report_write):
        os.close(fd)
    try:
        _map_ids(starter, report_read, go_write)
        line = _line(report_read)
        identity = ProcessId.of(int(line)) if line.isdigit() else None
        if identity is None:
            raise FabricError(f"the fabric's init did not start: {line or 'no report'}")
        place.save("init.json", identity.__dict__)
        try:
            _follow(progress_read, deadline_s, say)
        except BaseException:
            identity.kill(10.0)
            raise
    finally:
        for fd in (progress_read, go_write, report_read):
            os.close(fd)
        os.waitpid(starter, 0)


def _starter(
    place: FabricDir, what: Spec, topology: Topology, progress: int, go: int, report: int
) -> NoReturn:
    """Enters the new namespaces and forks the init, which the kernel makes process 1."""
    try:
        os.setsid()
        # Among what `up` has open is its lock, which the init must not keep.
        kept = sorted({progress, go, report})
        for low, high in zip([2, *kept], [*kept, 1 << 16]):
            os.closerange(low + 1, high)
        null = os.open(os.devnull, os.O_RDWR)
        log = os.open(place.log / "init.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        linux.unshare(_NAMESPACES)
        os.write(report, b"unshared\n")
        if os.read(go, 2) == b"go":
            pid = os.fork()
            if pid == 0:
                os.close(report)
                os.close(go)
                os.chdir("/")
                os.dup2(null, 0)
                os.dup2(log, 1)
                os.dup2(log, 2)
                try:
                    init.main(place, what, topology, progress)
                except Exception:
                    traceback.print_exc()
                finally:
                    os._exit(1)
            os.write(report, f"{pid}\n".encode())
    except OSError as error:
        os.write(report, f"error {error.errno} {error}\n".encode())
    finally:
        os._exit(0)


def _map_ids(starter: int, report: int, go: int) -> None:
    line = _line(report)
    if line != "unshared":
        raise FabricError(_explain(line))
    if os.geteuid() == 0:
        count = min(_MAPPED_IDS, _ids_of_our_own())
        ids = groups = f"0 0 {count}\n"
    else:
        # One user may map himself only, and only without the power to drop groups.
        Path(f"/proc/{starter}/setgroups").write_text("deny", encoding="ascii")
        ids, groups = f"0 {os.geteuid()} 1\n", f"0 {os.getegid()} 1\n"
    Path(f"/proc/{starter}/uid_map").write_text(ids, encoding="ascii")
    Path(f"/proc/{starter}/gid_map").write_text(groups, encoding="ascii")
    os.write(go, b"go")


def _ids_of_our_own() -> int:
    """How many uids from 0 on exist here without a gap: fewer than 2^32 in a container."""
    first = Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    return int(first[2]) if first[0] == "0" else 1


def _explain(line: str) -> str:
    number = line.split()[1:2]
    text = f"cannot make namespaces: {line.removeprefix('error ')}"
    if number == [str(errno.EPERM)]:
        text += (
            "\n  Unprivileged user namespaces are switched off: run as root, or set "
            "kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0"
            "\n  (whichever exists); a container needs its seccomp profile to allow unshare"
        )
    elif number == [str(errno.ENOSPC)]:
        text += "\n  user.max_user_namespaces (or another limit in /proc/sys/user) is used up"
    return text


def _line(fd: int, deadline_s: float = 10.0) -> str:
    """Reads up to a newline; what came so far at the deadline or the end."""
    data = b""
    end = time.monotonic() + deadline_s
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([fd], [], [], max(0.0, end - time.monotonic()))
        part = os.read(fd, 1) if ready else b""
        if not part:
            break
        data += part
    return data.decode(errors="replace").strip()


def _follow(progress: int, deadline_s: float, say: Callable[[str], None]) -> None:
    """Prints the init's steps until it is ready; raises on its error or the deadline."""
    end = time.monotonic() + deadline_s
    data = b""
    step, waiting = "start", ""
    while True:
        ready, _, _ = select.select([progress], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise FabricError(
                f"not ready after {deadline_s:.0f} s, at step '{step}'"
                + (f": {waiting}" if waiting else "")
            )
        part = os.read(progress, 65536)
        if not part:
            raise FabricError(f"the fabric's init ended at step '{step}'")
        *lines, data = (data + part).split(b"\n")
        for line in lines:
            message: dict[str, Any] = {}
            with contextlib.suppress(ValueError):
                message = json.loads(line)
            if "step" in message:
                step, waiting = message["step"], ""
                say(step)
            waiting = message.get("waiting", waiting)
            if "error" in message:
                raise FabricError(f"step '{step}' failed: {message['error']}")
            if "ready" in message:
                return
