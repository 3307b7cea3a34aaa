# SPDX-License-Identifier: BSD-3-Clause
"""The daemons of a fabric: ibsim, OpenSM and softhca's agent, as children of its init."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

kStopped = "stopped"  # the state of a daemon that was ended on request

kOpensm = "opensm"
kOpensmLog = f"{kOpensm}.log"


@dataclasses.dataclass
class Daemon:
    """One daemon: how it is started, and what became of it. Reaped by init alone."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    console: Path | None = None  # the FIFO that is its standard input, for commands
    process: subprocess.Popen[bytes] | None = None
    ended: str | None = None
    console_fd: int | None = None

    def start(self, extra: Sequence[str] = ()) -> None:
        """Starts it; its output is appended to its log file."""
        self.ended = None
        if self.console is not None and self.console_fd is None:
            os.mkfifo(self.console, 0o600)
            # For both directions: it never sees an end, and nobody waits for the other side.
            self.console_fd = os.open(self.console, os.O_RDWR | os.O_CLOEXEC)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.argv, *extra],
                env=dict(self.env),
                cwd=self.cwd,
                stdin=subprocess.DEVNULL if self.console_fd is None else self.console_fd,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None and self.ended is None else None

    def reaped(self, status: int) -> None:
        """Records the wait status that init got for it."""
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            self.ended = f"ended by {signal.Signals(-code).name}"
        else:
            self.ended = f"ended with status {code}"

    def command(self, line: str) -> None:
        """Writes one line to its standard input."""
        if self.console_fd is not None:
            os.write(self.console_fd, line.encode() + b"\n")

    def failed(self) -> bool:
        """It has ended, and nobody asked for it."""
        return self.ended is not None and self.ended != kStopped

    def state(self) -> str:
        if self.process is None:
            return "not started"
        return self.ended or "running"


def ibsim(argv0: str, sock: str, net: Path, console: Path, cwd: Path, log: Path) -> Daemon:
    """The simulator. Its console is a FIFO, so that the agent can pull cables too."""
    env = {"PATH": os.defpath, "IBSIM_SOCKNAME": sock}
    return Daemon("ibsim", [argv0, "-s", str(net)], env, cwd, log, console=console)


def opensm(
    argv0: str,
    attachment: Mapping[str, str],
    name: str,
    cwd: Path,
    log_dir: Path,
    options: Sequence[str],
) -> Daemon:
    """A subnet manager. Keeps its LIDs in `cwd` over restarts; its log is `name`.log.

    `attachment` is the environment that connects it to the fabric: `on_softhca` or `on_umad2sim`.
    """
    env = {
        "PATH": os.defpath,
        "OSM_CACHE_DIR": str(cwd),
        "OSM_TMP_DIR": str(cwd),
        **attachment,
    }
    # -d2: the log is written at once, for init waits for a line of it.
    argv = [argv0, "-f", str(log_dir / f"{name}.log"), "-d2", *options]
    return Daemon(name, argv, env, cwd, log_dir / f"{name}.out")


def on_softhca(softhca: str, run: Path, host: str) -> dict[str, str]:
    """OpenSM as a program on `host`: all its management datagrams go through softhca's umad."""
    return {
        "LD_PRELOAD": f"{softhca}/libsofthca.so",
        "SOFTHCA_DIR": str(run),
        "SOFTHCA_HOST": host,
    }


def on_umad2sim(umad2sim: str, sock: str, node: str) -> dict[str, str]:
    """OpenSM without softhca: a client of ibsim, attached to port 1 of `node`."""
    return {"LD_PRELOAD": umad2sim, "IBSIM_SOCKNAME": sock, "SIM_HOST": node}


def agent(
    softhca: str, sock: str, node: str, run: Path, console: Path, cwd: Path, log: Path
) -> Daemon:
    """softhca's agent: the one client of ibsim, whose protocol it speaks itself."""
    env = {
        "PATH": os.defpath,
        "IBSIM_SOCKNAME": sock,
        "SIM_HOST": node,
        "SOFTHCA_DIR": str(run),
    }
    argv = [f"{softhca}/softhca-agent", "--console", str(console)]
    return Daemon("softhca-agent", argv, env, cwd, log)
