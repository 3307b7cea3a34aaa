# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of management programs share: a fabric per class, ports, faults, watchers."""
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from fabric import BUILD, TOOL, Fabric, Output, bounded

SOFTHCA = BUILD / "softhca" / "softhca"


class ManagementTest(unittest.TestCase):
    """Has a fabric of three hosts, one for all tests of the class."""

    fabric: Fabric
    #: Options of `ib-fabric up`.
    options: tuple[object, ...] = ("--hosts", 3)

    @classmethod
    def setUpClass(cls) -> None:
        cls.fabric = Fabric(*cls.options, name=cls.__name__.lower()).__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def run_on(self, host: str, *command: object, seconds: int = 60) -> str:
        """What a command wrote that must end with status 0."""
        done = self.fabric.run(host, *command, seconds=seconds)
        self.assertEqual(done.status, 0, f"{command}: {done.all}")
        return done.out

    def ports(self) -> dict[str, tuple[str, int]]:
        """By host: state and LID of port 1, as the emulated HCAs see them."""
        table = self.run_on("H1", SOFTHCA, "ports").partition("\n\n")[0]
        rows = [line.split() for line in table.splitlines()[1:]]
        return {row[0]: (row[3], int(row[4])) for row in rows if row[2] == "1"}

    def lid(self, host: str) -> int:
        return self.ports()[host][1]

    def fault(self, *words: object) -> str:
        return self.run_on("H1", SOFTHCA, "fault", *words)

    def sm(self, *words: object) -> Output:
        return bounded([TOOL, "sm", "--name", self.fabric.name, *words], 60)

    def eventually(self, condition: Callable[[], bool], what: str, seconds: float = 40) -> None:
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, f"not within {seconds:.0f} s: {what}")
            time.sleep(0.1)


class Background:
    """A program on a host whose output is read while it runs; ended at the end of the block."""

    def __init__(self, fabric: Fabric, host: str, *command: object, seconds: int = 120) -> None:
        self._file = tempfile.TemporaryFile("w+", errors="replace")
        words = ["timeout", "-k", "5", seconds, TOOL, "exec", "--name", fabric.name, host, "--"]
        self._process = subprocess.Popen(
            [*map(str, words), "stdbuf", "-oL", *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *unused: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._file.close()

    def terminate(self) -> None:
        """Asks it to end; what it says then can still be read."""
        self._process.terminate()

    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def output(self) -> str:
        # A reader of its own, for the position of the file is shared with the program.
        path = Path(f"/proc/self/fd/{self._file.fileno()}")
        return path.read_text(errors="replace")
