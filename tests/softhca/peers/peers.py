# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of third-party programs share: a fabric per class, and pairs of programs on it."""
import re
import unittest

from fabric import Fabric, Program

#: Where a pair's server and client run: different hosts, with switches between them.
SERVER, CLIENT = "H1", "H3"


class PeerTest(unittest.TestCase):
    """Has a fabric of four hosts, one for all tests of the class."""

    fabric: Fabric
    #: Options of `ib-fabric up`.
    options: tuple[object, ...] = ()
    #: Seed of softhca's asynchronous mode, if the class's fabric is in it.
    asynchronous: int | None = None

    @classmethod
    def setUpClass(cls) -> None:
        name = f"{cls.__module__.removeprefix('test_')}{cls.__name__}".lower().replace("_", "")
        cls.fabric = Fabric(
            "--hosts", 4, *cls.options, name=name, asynchronous=cls.asynchronous
        ).__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def pair(
        self,
        program: list[object],
        server_options: list[object] | None = None,
        client_options: list[object] | None = None,
        seconds: int = 300,
    ) -> tuple[str, str]:
        """Runs a program as server on SERVER and, with the server's name at its end, on CLIENT.

        Both must end with status 0 within `seconds`. Returns what server and client wrote.
        """
        done, served = self.fabric.pair(
            (SERVER, CLIENT),
            [*program, *(server_options or [])],
            [*program, *(client_options or []), SERVER],
            is_early=lambda done: "Couldn't connect to" in done.all,
            seconds=seconds,
        )
        said = f"{program}\nclient ({done.status}): {done.all}\nserver ({served.status}): {served.out}"
        self.assertEqual(done.status, 0, said)
        self.assertEqual(served.status, 0, said)
        return served.out, done.out

    def port_counters(self, name: str) -> dict[str, int]:
        """One of softhca's counters, by host."""
        return {port["host"]: port[name] for port in self.fabric.stats()["ports"]}

    def assert_grew(self, before: dict[str, int], after: dict[str, int], least: int) -> None:
        """Every host's counter is at least `least` higher than before."""
        for host, value in after.items():
            self.assertGreaterEqual(value - before[host], least, f"{host}: {before} -> {after}")


class Traffic:
    """What softhca counted at the ports since this was made."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.before = self.ports()

    def ports(self) -> dict[str, dict[str, int]]:
        return {port["host"]: port for port in self.fabric.stats()["ports"]}

    def grown(self, counter: str) -> dict[str, int]:
        """How much one counter has grown, by host; hosts where it has not are left out."""
        now = self.ports()
        grown = {host: now[host][counter] - self.before[host][counter] for host in now}
        return {host: count for host, count in grown.items() if count != 0}


def until_line(running: Program, pattern: str) -> re.Match[str]:
    """Reads what a program of Fabric.start() writes up to a line that matches `pattern`.

    The program's own limit of time ends the wait. What follows is for rest_of(), not for
    communicate(): some of it has been read ahead.
    """
    seen = []
    for line in running.stdout or []:
        seen.append(line)
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"no line like {pattern!r} in:\n{''.join(seen)}")


def rest_of(running: Program) -> str:
    """What a program writes from here to its end, which its own limit of time brings about."""
    return running.stdout.read() if running.stdout else ""
