# SPDX-License-Identifier: BSD-3-Clause
"""CM over QP1 between hosts: the engine with the gsi carrier on each, softhca's agent as the
kernel's MAD layer between them."""
import re
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "softhca" / "management")]
from fabric import BUILD, Output  # noqa: E402
from support import Background, ManagementTest  # noqa: E402

PROGRAM = BUILD / "tests" / "cm" / "cm_over_gsi"


def numbers(line: str) -> "dict[str, int]":
    """The program's last line: names and what it counted of each."""
    return {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", line)}


class Gsi(ManagementTest):
    options = ("--hosts", 2)

    def setUp(self) -> None:
        self.fault("gsi", "clear")

    def listen(self, host: str) -> Background:
        server = Background(self.fabric, host, PROGRAM, "listen", seconds=200)
        self.addCleanup(server.__exit__)
        self.eventually(lambda: server.ended() or "listening" in server.output, f"{host} listens")
        self.assertIn("listening", server.output)
        return server

    def stop(self, server: Background) -> "dict[str, int]":
        """What it counted."""
        server.terminate()
        self.eventually(server.ended, "the server ends")
        return numbers(server.output.splitlines()[-1])

    def connect(self, host: str, to: str, count: int, *gid: str) -> Output:
        words = (PROGRAM, "connect", self.lid(to), count, *gid)
        return self.fabric.run(host, *words, seconds=150)

    def connected(self, host: str, to: str, count: int, *gid: str) -> "dict[str, int]":
        """All are made and released; what the active side counted."""
        done = self.connect(host, to, count, *gid)
        self.assertEqual(done.status, 0, done.all)
        found = numbers(done.out.splitlines()[-1])
        self.assertEqual(found["established"], count)
        self.assertEqual(found["disconnected"], count)
        self.assertEqual(found["unanswered"], 0)
        self.assertEqual(found["rejected"] + found["failed"], 0)
        self.assertEqual(found["left"], 0)
        self.assertEqual(found["refused"] + found["overflows"], 0)
        return found

    def cm_messages(self) -> "dict[str, int]":
        """CM messages that went over the fabric, by softhca's own count."""
        return self.fabric.stats()["total"]

    def test_connections(self) -> None:
        server = self.listen("H1")
        before = self.cm_messages()
        self.connected("H2", "H1", 200)
        found = self.stop(server)
        self.assertEqual(found["offered"], 200)
        self.assertEqual(found["established"], 200)
        self.assertEqual(found["disconnected"], 200)
        after = self.cm_messages()
        for kind in ("req", "rep", "rtu", "dreq", "drep"):
            # A busy machine may make a side repeat itself; fewer there cannot be.
            self.assertGreaterEqual(after[f"cm_{kind}"] - before[f"cm_{kind}"], 200, kind)
        self.assertEqual(after["cm_rej"], before["cm_rej"])
        self.assertEqual(after["cm_other"], before["cm_other"])

    def test_a_grh_goes_there_and_back(self) -> None:
        server = self.listen("H1")
        self.connected("H2", "H1", 5, "fe80::5b00:0:0:101")
        self.assertEqual(self.stop(server)["established"], 5)

    def test_a_grh_for_somebody_else_is_not_heard(self) -> None:
        server = self.listen("H1")
        self.fault("gsi", "drop", "--dst", "H1", "--nth", 1_000_000)  # counts what is sent there
        words = (PROGRAM, "connect", self.lid("H1"), 1, "fe80::5b00:0:0:909")
        running = Background(self.fabric, "H2", *words, seconds=60)
        self.addCleanup(running.__exit__)
        self.eventually(
            lambda: re.search(r"matched [1-9]", self.fault("gsi", "list")) is not None,
            "a REQ is on its way",
        )
        running.__exit__()
        self.assertEqual(self.stop(server)["offered"], 0)

    def test_losses_are_made_good(self) -> None:
        server = self.listen("H1")
        self.fault("gsi", "drop", "--class", "cm", "--chance", "20%", "--seed", "5")
        self.fault("gsi", "duplicate", "--class", "cm", "--chance", "10%", "--seed", "6")
        self.fault("gsi", "reorder", "--class", "cm", "--chance", "10%", "--seed", "7")
        self.connected("H2", "H1", 50)
        hit = [int(count) for count in re.findall(r"hit (\d+)", self.fault("gsi", "list"))]
        self.assertEqual(len(hit), 3)
        self.assertGreater(hit[0], 20, "messages were lost")
        self.fault("gsi", "clear")
        found = self.stop(server)
        self.assertEqual(found["offered"], 50, "copies are no requests of their own")

    def test_one_process_of_a_port_has_the_class(self) -> None:
        first = self.listen("H1")
        second = self.fabric.run("H1", PROGRAM, "listen", seconds=30)
        self.assertEqual(second.status, 3, second.all)
        # (The kernel of this machine may have its CM loaded; then that is named.)
        self.assertRegex(
            second.out,
            r"refused: CM over QP1 of softhca0 port 1 is taken, probably by "
            r"(another process|the kernel's ib_cm).*use the ud carrier",
        )
        self.connected("H2", "H1", 3)  # another port's class is another's, and the first goes on
        self.stop(first)
        self.stop(self.listen("H1"))  # who ends gives it back


if __name__ == "__main__":
    unittest.main(verbosity=2)
