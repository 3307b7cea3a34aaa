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

from . import control, daemons, hosts, linux, managers, ports, readiness, spec
from .state import FabricDir
from .topology import Topology

_PROMPT = re.compile(r"sim(?: \(inactive\))?> \Z")
_AGENT_DEADLINE = 30.0
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
        self.managers = managers.Managers(
            place, what, self.daemons, self.attachment, self.reap
        )

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
        console = place.run / "ibsim.console"
        ibsim = daemons.ibsim(
            spec.program("ibsim", "ibsim-utils"),
            kSocketName,
            place.net,
            console,
            place.run,
            place.log / "ibsim.log",
        )
        self.daemons["ibsim"] = ibsim
        ibsim.start()
        self.wait_for(lambda: _PROMPT.search(_text(ibsim.log)) is not None, 10.0, ibsim)
        if what.softhca is not None:
            self.step("softhca's agent")
            agent = daemons.agent(
                what.softhca,
                kSocketName,
                self.sm_node,
                place.softhca,
                console,
                place.run,
                place.log / "agent.log",
            )
            self.daemons["softhca-agent"] = agent
            agent.start()
            # OpenSM is a client of the agent.
            self.wait_for((place.softhca / "agent.ready").exists, _AGENT_DEADLINE, agent)
        sm = self.managers.on(what.hosts[0])
        if what.opensm:
            self.step(f"subnet manager: OpenSM on {what.hosts[0]}")
            sm.start()

    def attachment(self, host: str) -> dict[str, str]:
        """How an OpenSM on `host` is connected to the fabric."""
        if self.spec.softhca is not None:
            return daemons.on_softhca(self.spec.softhca, self.place.softhca, host)
        return daemons.on_umad2sim(spec.umad2sim(), kSocketName, self.sm_node)

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
            case "sim":
                return self.simulator(str(request.get("command", "")))
            case _:
                return self.sm_request(request)

    def status(self) -> dict[str, Any]:
        return {
            "daemons": {name: daemon.state() for name, daemon in self.daemons.items()},
            "hosts": [name for name in self.holders if name != hosts.kHead],
            "lost_hosts": self.lost_hosts,
        }

    def sm_request(self, request: dict[str, Any]) -> dict[str, Any]:
        host = str(request.get("host") or self.spec.hosts[0])
        match request.get("do"):
            case "sm-stop":
                return self.managers.stop(host)
            case "sm-kill":
                return self.managers.stop(host, signal.SIGKILL)
            case "sm-start":
                options = request.get("options", [])
                if not isinstance(options, list) or not all(isinstance(o, str) for o in options):
                    raise ValueError("options must be a list of strings")
                return self.managers.start(host, options)
            case "sm-lid":
                port, lid = request.get("port"), request.get("lid")
                if not isinstance(port, int) or not isinstance(lid, int) or not 0 < lid < 0xC000:
                    raise ValueError("a LID is 1 to 49151")
                return self.managers.set_lid(self.readiness.port_guid(host, port), lid)
            case other:
                raise ValueError(f"unknown request {other!r}")

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
