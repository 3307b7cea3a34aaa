# SPDX-License-Identifier: BSD-3-Clause
"""libibcm's example between two hosts: SIDR, connection, queue pairs moved by ib_cm_init_qp_attr(),
data, release; and who may have a port."""
import re
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "softhca" / "management")]
from fabric import BUILD  # noqa: E402
from support import Background, ManagementTest  # noqa: E402

PAIR = BUILD / "examples" / "ibcm_pair"


class Pair(ManagementTest):
    options = ("--hosts", 2)

    def setUp(self) -> None:
        self.fault("gsi", "clear")

    def served(self, rounds: int) -> None:
        with Background(self.fabric, "H1", PAIR, "server", rounds, seconds=120) as server:
            self.eventually(lambda: server.ended() or "gid" in server.output, "the server listens")
            words = re.search(r"lid (\d+) gid (\S+)", server.output)
            self.assertIsNotNone(words, server.output)
            self.assertEqual(int(words.group(1)), self.lid("H1"))
            done = self.fabric.run("H2", PAIR, "client", *words.groups(), rounds, seconds=120)
            self.assertEqual(done.status, 0, done.all + server.output)
            self.assertRegex(done.out, rf"service at queue pair 0x\w+\n{2 * rounds} throws\n")
            self.eventually(server.ended, "the server ends")
            # The last throw is its own.
            self.assertIn(f"{2 * rounds} throws", server.output)

    def test_ping_pong(self) -> None:
        before = self.fabric.stats()["total"]
        self.served(50)
        after = self.fabric.stats()["total"]
        for kind in ("req", "rep", "rtu", "dreq", "drep"):
            self.assertGreaterEqual(after[f"cm_{kind}"] - before[f"cm_{kind}"], 1, kind)

    def test_losses_are_made_good(self) -> None:
        self.fault("gsi", "drop", "--class", "cm", "--chance", "20%", "--seed", "9")
        self.served(5)

    def test_one_process_has_a_port(self) -> None:
        with Background(self.fabric, "H1", PAIR, "server", seconds=60) as server:
            self.eventually(lambda: server.ended() or "gid" in server.output, "the server listens")
            second = self.fabric.run("H1", PAIR, "server", seconds=30)
            self.assertEqual(second.status, 1, second.all)
            self.assertRegex(second.all, r"connection manager: Device or resource busy \(CM over QP1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
