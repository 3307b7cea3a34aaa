# SPDX-License-Identifier: BSD-3-Clause
"""Which HCA ports are ACTIVE: as the simulator tells it, and as softhca publishes it."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import time
from pathlib import Path

from .daemons import Daemon

_NODE = re.compile(r'(\w+) \d+ "([^"]+)"')
_PORT = re.compile(r"[0-9a-f]+\s+\[(\d+)\].*\blid (\d+) .* (\w+)/\w+")
_END = re.compile(r"^#\s+dumped \d+ nodes", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class PortState:
    """One port of a node in the simulator."""

    lid: int
    state: str  # Active, Armed, Init, Down


# What the agent publishes: host -> port number -> that port of each of its HCAs.
Published = dict[str, dict[int, list[PortState]]]


def console(ibsim: Daemon, command: str, end: re.Pattern[str], deadline_s: float) -> str:
    """Sends a console command and returns what ibsim printed, up to a match of `end`.

    The console needs no client slot, of which ibsim has ten.
    """
    start = ibsim.log.stat().st_size
    ibsim.command(command)
    until = time.monotonic() + deadline_s
    while True:
        text = tail(ibsim.log, start)
        if end.search(text) or ibsim.pid is None or time.monotonic() > until:
            return text
        time.sleep(0.01)


def simulator_ports(ibsim: Daemon) -> dict[tuple[str, int], PortState]:
    """The linked HCA ports by node id and port number, as the simulator has them."""
    return parse_dump(console(ibsim, "Dump", _END, 2.0))


def tail(path: Path, start: int) -> str:
    """A text file from byte `start` on."""
    with open(path, "rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")


def published_ports(softhca: str, run: Path) -> Published | None:
    """What the agent has published; None until it has completed its first walk."""
    if not (run / "agent.ready").exists():
        return None
    try:
        done = subprocess.run(
            [f"{softhca}/softhca", "--dir", str(run), "ports"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return parse_ports(done.stdout) if done.returncode == 0 else None


def parse_ports(text: str) -> Published:
    """Reads the table of `softhca ports`: HOST DEVICE PORT STATE LID …, up to a blank line."""
    found: Published = {}
    for line in text.splitlines()[1:]:
        words = line.split()
        if not words:
            break
        host, _, port, state, lid = words[:5]
        found.setdefault(host, {}).setdefault(int(port), []).append(PortState(int(lid), state))
    return found


def unpublished(
    wanted: dict[tuple[str, int], int], published: Published
) -> list[str]:
    """Which of the wanted (host, port number) -> count the agent does not show as ACTIVE."""
    missing = []
    for (host, number), count in wanted.items():
        states = [port.state for port in published.get(host, {}).get(number, [])]
        if states.count("ACTIVE") < count:
            shown = ", ".join(states) or "absent"
            missing.append(f"{host} port {number} is {shown} in what softhca's agent published")
    return missing


def parse_dump(text: str) -> dict[tuple[str, int], PortState]:
    """Reads the output of ibsim's console command Dump."""
    found: dict[tuple[str, int], PortState] = {}
    ident: str | None = None
    for line in text.splitlines():
        node = _NODE.match(line)
        port = _PORT.match(line)
        if node is not None:
            ident = node[2] if node[1] == "Ca" else None
        elif port is not None and ident is not None:
            found[ident, int(port[1])] = PortState(int(port[2]), port[3])
    return found
