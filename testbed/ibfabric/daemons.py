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

kOpensmLog = "opensm.log"


@dataclasses.dataclass
class Daemon:
    """One daemon: how it is started, and what became of it. Reaped by init alone."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    console: bool = False  # it reads commands from standard input
    process: subprocess.Popen[bytes] | None = None
    ended: str | None = None

    def start(self, extra: Sequence[str] = ()) -> None:
        """Starts it; its output is appended to its log file."""
        self.ended = None
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.argv, *extra],
                env=dict(self.env),
                cwd=self.cwd,
                stdin=subprocess.PIPE if self.console else subprocess.DEVNULL,
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
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def failed(self) -> bool:
        """It has ended, and nobody asked for it."""
        return self.ended is not None and self.ended != kStopped

    def state(self) -> str:
        if self.process is None:
            return "not started"
        return self.ended or "running"


def ibsim(argv0: str, sock: str, net: Path, cwd: Path, log: Path) -> Daemon:
    """The simulator. Its console is our pipe, which must stay open."""
    env = {"PATH": os.defpath, "IBSIM_SOCKNAME": sock}
    return Daemon("ibsim", [argv0, "-s", str(net)], env, cwd, log, console=True)


def opensm(
    argv0: str,
    umad2sim: str,
    sock: str,
    node: str,
    cwd: Path,
    log_dir: Path,
    options: Sequence[str],
) -> Daemon:
    """The subnet manager, attached to port 1 of `node`. Keeps its LIDs in `cwd` over restarts."""
    env = {
        "PATH": os.defpath,
        "LD_PRELOAD": umad2sim,
        "IBSIM_SOCKNAME": sock,
        "SIM_HOST": node,
        "OSM_CACHE_DIR": str(cwd),
        "OSM_TMP_DIR": str(cwd),
    }
    # -d2: the log is written at once, for init waits for a line of it.
    argv = [argv0, "-f", str(log_dir / kOpensmLog), "-d2", *options]
    return Daemon("opensm", argv, env, cwd, log_dir / "opensm.out")


def agent(softhca: str, sock: str, node: str, run: Path, cwd: Path, log: Path) -> Daemon:
    """softhca's agent: the one client of ibsim that publishes the fabric to all hosts.

    It speaks ibsim's protocol itself, so umad2sim is not preloaded.
    """
    env = {
        "PATH": os.defpath,
        "IBSIM_SOCKNAME": sock,
        "SIM_HOST": node,
        "SOFTHCA_DIR": str(run),
    }
    return Daemon("softhca-agent", [f"{softhca}/softhca-agent"], env, cwd, log)
