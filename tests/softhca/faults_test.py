# SPDX-License-Identifier: BSD-3-Clause
"""`softhca fault` on a fabric: each command changes what unmodified programs see."""
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from fabric import BUILD, Fabric, Output  # noqa: E402

SOFTHCA = BUILD / "softhca" / "softhca"


class Faults(unittest.TestCase):
    fabric: Fabric

    @classmethod
    def setUpClass(cls) -> None:
        cls.fabric = Fabric("--hosts", 2, name="faults").__enter__()
        cls.addClassCleanup(cls.fabric.down)

    def tearDown(self) -> None:
        self.fabric.fault("clear")
        self.fabric.fault("qkeys", "open")

    def pingpong(self, program: str = "ibv_rc_pingpong") -> tuple[Output, str]:
        """The client's output on H2 and the server's on H1."""
        words = ["timeout", "20", program, "-n", "100"]
        client, server = self.fabric.pair(
            ("H1", "H2"), words, [*words, "H1"], lambda done: "Couldn't connect" in done.all
        )
        return client, server.out

    def test_pingpong_works_without_faults_and_in_the_asynchronous_mode(self) -> None:
        self.assertEqual(self.pingpong()[0].status, 0)
        self.fabric.fault("async", "--seed", 3, "--delay", 50)
        try:
            client, out = self.pingpong()
        finally:
            self.fabric.fault("async", "off")
        self.assertEqual(client.status, 0, client.all + out)

    def test_a_way_broken_one_way_ends_in_retry_exceeded(self) -> None:
        for source, destination in (("H2", "H1"), ("H1", "H2:softhca0:1")):
            self.fabric.fault("rc", "break", "--src", source, "--dst", destination)
            client, _ = self.pingpong()
            self.assertNotEqual(client.status, 0)
            self.assertIn("transport retry counter exceeded", client.all)
            self.fabric.fault("clear")

    def test_a_completion_error_of_ones_choice(self) -> None:
        self.fabric.fault("error", "rem_op_err", "--src", "H2", "--nth", 5)
        client, _ = self.pingpong()
        self.assertIn("remote operation error", client.all)

    def test_creation_fails_and_limits_are_lowered(self) -> None:
        self.fabric.fault("call", "create_qp", "--errno", "ENOMEM", "--src", "H2", "--count", 1)
        client, _ = self.pingpong()
        self.assertIn("Couldn't create QP", client.all)
        self.assertEqual(self.pingpong()[0].status, 0)
        self.fabric.fault("limit", "qps", 0, "--src", "H2")
        self.assertIn("Couldn't create QP", self.pingpong()[0].all)
        self.assertRegex(self.fabric.run("H2", "ibv_devinfo", "-v").out, r"max_qp:\s+0\n")
        self.assertNotRegex(self.fabric.run("H1", "ibv_devinfo", "-v").out, r"max_qp:\s+0\n")

    def test_show_lists_rules_in_their_own_words_with_what_they_did(self) -> None:
        words = ["ud", "drop", "--dst", "H1:softhca0:1", "--qpn", "72", "--nth", "2"]
        self.fabric.fault(*words)
        self.fabric.fault("qkeys", "restricted")
        shown = self.fabric.run("H1", SOFTHCA, "fault", "show").out
        self.assertIn(" ".join(words) + ": matched 0, hit 0", shown)
        self.assertIn("qkeys restricted", shown)

    def test_mistakes_are_named(self) -> None:
        for words, said in (
            (["rc", "brake"], 'unknown action "brake"'),
            (["error", "no_such"], 'unknown completion status "no_such"'),
            (["ud", "drop", "--src", "H9"], '--src is "H9"'),
            (["call", "create_qp"], "--errno is missing"),
            (["limit", "qps"], "wants qps, cqes or memory, and a number"),
            (["rc", "stall", "--nth"], "a value is missing after --nth"),
        ):
            done = self.fabric.run("H1", SOFTHCA, "fault", *words)
            self.assertEqual(done.status, 2, done.all)
            self.assertIn(said, done.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
