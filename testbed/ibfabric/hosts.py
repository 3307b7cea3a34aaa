# SPDX-License-Identifier: BSD-3-Clause
"""A host of the fabric: network, UTS and mount namespace with its own /run and /dev/shm.

A host is held by one sleeping process, its holder; whoever enters the host joins the
holder's namespaces. All hosts hang on one bridge of the fabric's network namespace.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from . import linux

kBridge = "fabric0"
kMaxHosts = 250
_BRIDGE_ADDRESS = "10.77.255.254/16"
kTmpDir = "/run/tmp"  # TMPDIR of everything that runs on a host
# Where mpirun runs: a host like the others, but without HCA and never given ranks, so that
# all hosts that have ranks are alike and each has an orted that ends them with mpirun.
kHead = "ib-fabric-head"


def address(index: int) -> str:
    """The IPv4 address of the host with this index, counted from 0."""
    return f"10.77.{(index + 1) >> 8}.{(index + 1) & 255}"


def hosts_and_head(names: Sequence[str]) -> list[str]:
    """All machines of a fabric; the index in this list gives the address."""
    return [*names, kHead]


def etc_hosts(names: Sequence[str]) -> str:
    """The /etc/hosts that all hosts share."""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    lines += [f"{address(index)}\t{name}" for index, name in enumerate(hosts_and_head(names))]
    return "\n".join(lines) + "\n"


def ip_batch(ip: str, commands: Sequence[str]) -> None:
    """Runs several commands in one `ip` process; raises with ip's own words."""
    done = subprocess.run(
        [ip, "-batch", "-"],
        input="\n".join(commands) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode != 0:
        raise OSError(f"ip: {done.stderr.strip() or done.stdout.strip()}")


class Holder:
    """The process that keeps one host's namespaces.

    Made in steps, which go on in all hosts side by side: `__init__` forks it into its new
    namespaces, `wait_made` waits for those, the caller runs the commands of `plug`, `go`
    lets it set up its end of the cable, `settle` waits for that.
    """

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        ready_read, self._ready_write = os.pipe()
        go_read, self._go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ready_read)
            os.close(self._go)
            _hold(name, index, self._ready_write, go_read)
        os.close(self._ready_write)
        os.close(go_read)
        self._ready = ready_read

    def _expect(self, what: str) -> None:
        answer = os.read(self._ready, 400).decode()
        if answer != "ok":
            raise OSError(f"host {self.name}: {what}: {answer or 'its process ended'}")

    def wait_made(self) -> None:
        self._expect("namespaces")

    def plug(self) -> list[str]:
        """The ip commands that connect the host to the bridge."""
        port = f"host{self.index + 1}"
        return [
            f"link add name {port} type veth peer name eth0 netns {self.pid}",
            f"link set {port} master {kBridge} up",
        ]

    def go(self) -> None:
        os.write(self._go, b"go")

    def settle(self) -> None:
        self._expect("network")
        os.close(self._ready)
        os.close(self._go)


def bridge_commands() -> list[str]:
    return [
        "link set lo up",
        f"link add name {kBridge} type bridge",
        f"addr add {_BRIDGE_ADDRESS} dev {kBridge}",
        f"link set {kBridge} up",
    ]


def mount_private_dirs() -> None:
    """Own /run and /dev/shm, with a TMPDIR in /run that every user may use."""
    for path, mode in (("/run", "755"), ("/dev/shm", "1777")):
        flags = linux.MS_NOSUID | linux.MS_NODEV
        linux.mount("tmpfs", os.path.realpath(path), "tmpfs", flags, f"mode={mode}")
    for path in (kTmpDir, "/run/lock"):
        Path(path).mkdir()
        Path(path).chmod(0o1777)


def _hold(name: str, index: int, ready: int, go: int) -> None:
    """The holder's life; never returns."""
    try:
        linux.unshare(linux.CLONE_NEWNET | linux.CLONE_NEWUTS | linux.CLONE_NEWNS)
        linux.sethostname(name)
        mount_private_dirs()
        # The old /sys shows the network interfaces of the machine, not of this host. Not
        # every container allows a new one; then the old one stays.
        with contextlib.suppress(OSError):
            flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
            linux.mount("sysfs", "/sys", "sysfs", flags)
        os.write(ready, b"ok")
        if os.read(go, 8) == b"go":
            linux.bring_up("lo")
            linux.bring_up("eth0", address(index), "255.255.0.0")
            os.write(ready, b"ok")
            os.close(ready)
            os.close(go)
            os.execv("/bin/sleep", [f"ib-fabric-host-{name}", "infinity"])
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(ready, str(error).encode()[:400])
    finally:
        os._exit(1)
