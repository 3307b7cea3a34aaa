# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of third-party programs share: a fabric per class, and pairs of programs on it."""
import subprocess
import time
import unittest

from fabric import Fabric

#: Until a server listens; it has to be loaded and to open its device first, on a busy machine.
READY_SECONDS = 60


class PeerTest(unittest.TestCase):
    """Has a fabric of four hosts, one for all tests of the class."""

    fabric: Fabric
    #: Options of `ib-fabric up`.
    options: tuple[object, ...] = ()

    @classmethod
    def setUpClass(cls) -> None:
        cls.fabric = Fabric("--hosts", 4, *cls.options, name=cls.__name__.lower()).__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def pair(
        self, server: list[object], client: list[object], port: int, seconds: int = 120
    ) -> tuple[str, str]:
        """Runs a server on H1 and, once it listens on TCP `port`, its client on H3.

        Both must end with status 0 within `seconds`. Returns what the two wrote.
        """
        running = self.fabric.start("H1", *server, seconds=seconds)
        try:
            self.await_listener("H1", port, running)
            done = self.fabric.run("H3", *client, seconds=seconds)
            out, _ = running.communicate(timeout=seconds)
        finally:
            end(running)
        self.assertEqual(done.status, 0, f"client: {done.all}\nserver: {out}")
        self.assertEqual(running.returncode, 0, f"server: {out}\nclient: {done.all}")
        return out, done.all

    def await_listener(self, host: str, port: int, running: "subprocess.Popen[str]") -> None:
        """Waits until a socket of the host listens on `port`."""
        rows = (f":{port:04X} 00000000:0000 0A", f":{port:04X} {'0' * 32}:0000 0A")  # IPv4, IPv6
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and running.poll() is None:
            sockets = self.fabric.run(host, "cat", "/proc/net/tcp", "/proc/net/tcp6").out
            if any(row in sockets for row in rows):
                return
            time.sleep(0.1)
        if running.poll() is None:
            running.kill()
        out, _ = running.communicate(timeout=30)
        self.fail(f"nothing listens on port {port} of {host}; the server wrote:\n{out}")

    def port_counters(self, name: str) -> dict[str, int]:
        """One of softhca's counters, by host."""
        return {port["host"]: port[name] for port in self.fabric.stats()["ports"]}

    def assert_grew(self, before: dict[str, int], after: dict[str, int], least: int) -> None:
        """Every host's counter is at least `least` higher than before."""
        for host, value in after.items():
            self.assertGreaterEqual(value - before[host], least, f"{host}: {before} -> {after}")


def end(running: "subprocess.Popen[str]") -> None:
    """Ends a program of Fabric.start(), if it still runs, and lets go of its output."""
    running.kill()
    running.wait()
    if running.stdout is not None:
        running.stdout.close()
