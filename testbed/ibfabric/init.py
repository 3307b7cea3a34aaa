# SPDX-License-Identifier: BSD-3-Clause
"""The fabric's init: process 1 of its namespaces. When it ends, every process of it ends.

It mounts, plugs the hosts together, starts the daemons, reports progress while doing so,
and then reaps children and answers on the control socket for the rest of its life.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import control, daemons, hosts, linux, ports, readiness, spec
from .state import FabricDir
from .topology import Topology

_PROMPT = re.compile(r"sim(?: \(inactive\))?> \Z")
_SM_STOP_DEADLINE = 3.0
_SM_START_DEADLINE = 10.0
kSocketName = "ib-fabric"  # abstract, hence scoped by the fabric's network namespace


class Init:
    def __init__(
        self,
        place: FabricDir,
        what: spec.Spec,
        topology: Topology,
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        self.place = place
        self.spec = what
        self.topology = topology
        self.report = report
        self.daemons: dict[str, daemons.Daemon] = {}
        self.holders: dict[str, hosts.Holder] = {}
        self.lost_hosts: list[str] = []
        self.readiness = readiness.Readiness(place, what, topology)
        # OpenSM and the agent look at the fabric from the first host.
        self.sm_node = self.readiness.first_node

    def run(self) -> None:
        """Brings everything up and serves until killed."""
        wake = _wake_on_child()
        self.mount()
        self.start_daemons()
        self.start_hosts()
        self.wait_active()
        listener = control.listen(self.place.control)
        self.report({"ready": True})
        self.serve(listener, wake)

    def step(self, text: str) -> None:
        self.report({"step": text})

    def mount(self) -> None:
        place = self.place
        linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
        flags = linux.MS_NOSUID | linux.MS_NODEV
        linux.mount("proc", "/proc", "proc", flags | linux.MS_NOEXEC)
        linux.mount("tmpfs", str(place.softhca), "tmpfs", flags, "mode=777")
        linux.mount("tmpfs", str(place.run), "tmpfs", flags, "mode=755")
        linux.mount(str(place.etc_hosts), "/etc/hosts", None, linux.MS_BIND)
        linux.sethostname(f"ib-fabric-{place.name}"[:64])
        hosts.ip_batch(spec.program("ip", "iproute2"), hosts.bridge_commands())

    def start_daemons(self) -> None:
        place, what = self.place, self.spec
        self.step(
            f"simulator: {self.topology.count('Switch')} switches, "
            f"{self.topology.count('Ca')} HCAs ({what.topology})"
        )
        preload = spec.umad2sim()
        ibsim = daemons.ibsim(
            spec.program("ibsim", "ibsim-utils"),
            kSocketName,
            place.net,
            place.run,
            place.log / "ibsim.log",
        )
        self.daemons["ibsim"] = ibsim
        ibsim.start()
        self.wait_for(lambda: _PROMPT.search(_text(ibsim.log)) is not None, 10.0, ibsim)
        sm = daemons.opensm(
            spec.program("opensm", "opensm"),
            preload,
            kSocketName,
            self.sm_node,
            place.run,
            place.log,
            what.opensm_options,
        )
        self.daemons["opensm"] = sm
        if what.opensm:
            self.step(f"subnet manager: OpenSM on {what.hosts[0]}")
            sm.start()
        if what.softhca is not None:
            self.step("softhca's agent")
            agent = daemons.agent(
                what.softhca,
                kSocketName,
                self.sm_node,
                place.softhca,
                place.run,
                place.log / "agent.log",
            )
            self.daemons["softhca-agent"] = agent
            agent.start()

    def start_hosts(self) -> None:
        names = self.spec.hosts
        self.step(f"hosts: {names[0]}" + (f" … {names[-1]}" if len(names) > 1 else ""))
        ip = spec.program("ip", "iproute2")
        everyone = hosts.hosts_and_head(names)
        made = [hosts.Holder(name, index) for index, name in enumerate(everyone)]
        for holder in made:
            holder.wait_made()
        hosts.ip_batch(ip, [line for holder in made for line in holder.plug()])
        for holder in made:
            holder.go()
        for holder in made:
            holder.settle()
            self.holders[holder.name] = holder
            (self.place.pids / holder.name).write_text(f"{holder.pid}\n", encoding="ascii")

    def wait_active(self) -> None:
        """Until the fabric is ready for use; `up` has the deadline."""
        self.step("sweeping the fabric")
        last = ""
        while True:
            self.check_alive()
            waiting = self.readiness.missing(self.daemons["ibsim"])
            if not waiting:
                return
            text = ", ".join(waiting[:8]) + (" …" if len(waiting) > 8 else "")
            if text != last:
                self.report({"waiting": text})
                last = text
            time.sleep(0.05)

    def wait_for(
        self, condition: Callable[[], bool], deadline_s: float, daemon: daemons.Daemon
    ) -> None:
        end = time.monotonic() + deadline_s
        while not condition():
            self.check_alive()
            if time.monotonic() > end:
                raise OSError(f"{daemon.name} is not ready after {deadline_s:.0f} s")
            time.sleep(0.01)

    def check_alive(self) -> None:
        self.reap()
        for daemon in self.daemons.values():
            if daemon.failed():
                raise OSError(f"{daemon.name} {daemon.ended}; its log: {daemon.log}")

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for daemon in self.daemons.values():
                if daemon.pid == pid:
                    daemon.reaped(status)
            for name, holder in list(self.holders.items()):
                if holder.pid == pid:
                    # Its number may be given to another process: nobody may join that one.
                    (self.place.pids / name).unlink(missing_ok=True)
                    del self.holders[name]
                    self.lost_hosts.append(name)

    def serve(self, listener: socket.socket, wake: int) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == wake:
                    os.read(wake, 4096)
                    self.reap()
                else:
                    control.answer(listener, self.handle)

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request of the control socket."""
        self.reap()
        match request.get("do"):
            case "status":
                return self.status()
            case "sm-stop":
                return self.sm_stop()
            case "sm-start":
                options = request.get("options", [])
                if not isinstance(options, list) or not all(isinstance(o, str) for o in options):
                    raise ValueError("options must be a list of strings")
                return self.sm_start(options)
            case "sim":
                return self.simulator(str(request.get("command", "")))
            case other:
                raise ValueError(f"unknown request {other!r}")

    def status(self) -> dict[str, Any]:
        return {
            "daemons": {name: daemon.state() for name, daemon in self.daemons.items()},
            "hosts": [name for name in self.holders if name != hosts.kHead],
            "lost_hosts": self.lost_hosts,
        }

    def sm_stop(self) -> dict[str, Any]:
        sm = self.daemons["opensm"]
        if sm.pid is None:
            return {"message": f"opensm is {sm.state()}"}
        os.kill(sm.pid, signal.SIGTERM)
        end = time.monotonic() + _SM_STOP_DEADLINE
        while sm.pid is not None:
            if time.monotonic() > end:
                os.kill(sm.pid, signal.SIGKILL)
                end += _SM_STOP_DEADLINE
            time.sleep(0.02)
            self.reap()
        how, sm.ended = sm.ended, daemons.kStopped
        return {"message": f"opensm {how}"}

    def sm_start(self, options: list[str]) -> dict[str, Any]:
        sm = self.daemons["opensm"]
        if sm.pid is not None:
            return {"message": "opensm is running already"}
        log = self.place.log / daemons.kOpensmLog
        since = log.stat().st_size if log.exists() else 0
        sm.start(options)
        end = time.monotonic() + _SM_START_DEADLINE
        while not readiness.subnet_up(log, since):
            self.reap()
            if sm.failed():
                raise ValueError(f"opensm {sm.ended}; its log: {sm.log}")
            if time.monotonic() > end:
                raise ValueError(f"opensm runs but has not finished a sweep; its log: {log}")
            time.sleep(0.02)
        return {"message": "opensm started; the subnet is up"}

    def simulator(self, command: str) -> dict[str, Any]:
        ibsim = self.daemons["ibsim"]
        if ibsim.pid is None:
            raise ValueError(f"ibsim {ibsim.state()}")
        if not command.isprintable() or not 0 < len(command) < 200:
            raise ValueError("a console command is one line of at most 199 characters")
        output = ports.console(ibsim, command, _PROMPT, 5.0)
        return {"output": _PROMPT.sub("", output)}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _wake_on_child() -> int:
    """A descriptor that becomes readable when a child ends."""
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


def main(place: FabricDir, what: spec.Spec, topology: Topology, progress: int) -> None:
    """Runs as process 1 and does not return. `progress` takes JSON lines until it is ready."""

    def report(value: dict[str, Any]) -> None:
        os.write(progress, json.dumps(value).encode() + b"\n")
        if "ready" in value or "error" in value:
            os.close(progress)

    linux.set_process_name("ib-fabric-init")
    try:
        Init(place, what, topology, report).run()
    except Exception as error:  # whatever it was: the caller must learn of it
        report({"error": f"{error}"})
        raise
