# SPDX-License-Identifier: BSD-3-Clause
"""The subnet managers of a fabric: one on the first host, others where they are asked for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from . import daemons, readiness, spec
from .state import FabricDir

_STOP_DEADLINE = 5.0
_START_DEADLINE = 30.0
_STANDBY = "Entering STANDBY state"


class Managers:
    """Daemon `opensm` is the first host's, `opensm-H2` that of host H2."""

    def __init__(
        self,
        place: FabricDir,
        what: spec.Spec,
        table: dict[str, daemons.Daemon],
        attachment: Callable[[str], dict[str, str]],
        reap: Callable[[], None],
    ) -> None:
        self.place = place
        self.spec = what
        self.daemons = table
        self.attachment = attachment
        self.reap = reap

    def name_on(self, host: str) -> str:
        if host not in self.spec.hosts:
            raise ValueError(f"no host {host!r}; there are {', '.join(self.spec.hosts)}")
        return daemons.kOpensm if host == self.spec.hosts[0] else f"{daemons.kOpensm}-{host}"

    def on(self, host: str) -> daemons.Daemon:
        """The daemon of a host, made at first use."""
        name = self.name_on(host)
        if name not in self.daemons:
            if name != daemons.kOpensm and self.spec.softhca is None:
                raise ValueError("without softhca there is one subnet manager, on the first host")
            # Each remembers LIDs for itself.
            cwd = self.place.run if name == daemons.kOpensm else self.place.run / name
            cwd.mkdir(exist_ok=True)
            self.daemons[name] = daemons.opensm(
                spec.program("opensm", "opensm"),
                self.attachment(host),
                name,
                cwd,
                self.place.log,
                self.spec.opensm_options,
            )
        return self.daemons[name]

    def stop(self, host: str, how: signal.Signals = signal.SIGTERM) -> dict[str, Any]:
        sm = self.on(host)
        if sm.pid is None:
            return {"message": f"{sm.name} is {sm.state()}"}
        os.kill(sm.pid, how)
        end = time.monotonic() + _STOP_DEADLINE
        while sm.pid is not None:
            if time.monotonic() > end:
                os.kill(sm.pid, signal.SIGKILL)
                end += _STOP_DEADLINE
            time.sleep(0.02)
            self.reap()
        ended, sm.ended = sm.ended, daemons.kStopped
        return {"message": f"{sm.name} {ended}"}

    def start(self, host: str, options: list[str]) -> dict[str, Any]:
        """Starts it and waits until it has swept the fabric, or stands by for another one."""
        sm = self.on(host)
        if sm.pid is not None:
            return {"message": f"{sm.name} is running already"}
        log = self.place.log / f"{sm.name}.log"
        since = log.stat().st_size if log.exists() else 0
        sm.start(options)
        end = time.monotonic() + _START_DEADLINE
        while True:
            self.reap()
            if readiness.subnet_up(log, since):
                return {"message": f"{sm.name} started; the subnet is up"}
            if readiness.logged(log, since, _STANDBY):
                return {"message": f"{sm.name} started; it stands by"}
            if sm.failed():
                raise ValueError(f"{sm.name} {sm.ended}; its log: {sm.log}")
            if time.monotonic() > end:
                raise ValueError(f"{sm.name} runs but has not finished a sweep; its log: {log}")
            time.sleep(0.02)

    def set_lid(self, port_guid: int, lid: int) -> dict[str, Any]:
        """Restarts the first host's manager with another LID for a port, which then lasts."""
        first = self.spec.hosts[0]
        self.stop(first)
        path = self.place.run / "guid2lid"
        text = path.read_text(encoding="ascii")
        entries = {}
        for line in text.splitlines():
            words = line.split()
            if len(words) == 3:
                entries[int(words[0], 16)] = (int(words[1], 16), int(words[2], 16))
        if port_guid not in entries:
            raise ValueError(f"the subnet manager has given no LID to port {port_guid:#x} yet")
        low, high = entries[port_guid]
        size = high - low
        others = [r for guid, r in entries.items() if guid != port_guid]
        if lid % (size + 1) != 0 or any(a <= lid + size and lid <= b for a, b in others):
            self.start(first, [])
            raise ValueError(f"LID {lid} is taken, or no multiple of {size + 1} as the LMC wants")
        entries[port_guid] = (lid, lid + size)
        lines = [f"{guid:#018x} {a:#06x} {b:#06x}\n" for guid, (a, b) in entries.items()]
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        return self.start(first, [])
