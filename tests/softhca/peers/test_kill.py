# SPDX-License-Identifier: BSD-3-Clause
"""Programs killed at seeded moments: whoever comes next can use the fabric.

What a dead process leaves behind is looked at more closely in verbs/kill_test.cpp.
"""
import random
import unittest

from fabric import end
from peers import PeerTest

#: Busy until they are killed. The client's command line ends with its server's name.
ENDLESS = (
    ["ibv_rc_pingpong", "-n", "100000000"],
    ["ibv_rc_pingpong", "-e", "-n", "100000000"],
    ["ibv_srq_pingpong", "-n", "100000000"],
    ["ibv_ud_pingpong", "-n", "100000000"],
    ["ib_write_bw", "-F", "-D", "60"],
)
FRESH = ["ibv_rc_pingpong", "-c", "-n", "50"]


class KillTest(PeerTest):
    def kill_pairs(self, seed: int, rounds: int) -> None:
        draw = random.Random(seed)
        killed = 0
        for turn in range(rounds):
            program = draw.choice(ENDLESS)
            victim = draw.choice(("server", "client", "both"))
            moment = draw.uniform(0, 1.0)
            with self.subTest(seed=seed, turn=turn, program=program, victim=victim):
                killed += self.kill_pair(program, victim, moment)
        # Some moments come before the program has begun.
        self.assertGreaterEqual(killed, rounds // 2)

    def kill_pair(self, program: list[str], victim: str, moment: float) -> bool:
        """Returns whether somebody was there to be killed."""
        server = self.fabric.start("H1", *program)
        client = self.fabric.start("H3", *program, "H1")
        try:
            # On the host, so that the moment is one of the program's own life, its start included.
            whom = {"server": "[^1]$", "client": " H1$", "both": ""}[victim]
            done = self.fabric.run(
                "H1", "sh", "-c", f"sleep {moment}; pkill -KILL -f '^{program[0]}.*{whom}'"
            )
        finally:
            end(server)
            end(client)
        killed = done.status == 0
        done, served = self.fabric.pair(("H1", "H3"), FRESH, [*FRESH, "H1"])
        self.assertEqual((done.status, served.status), (0, 0), done.all + served.all)
        self.assertNotIn("invalid data", done.all + served.all)
        self.fabric.stats()
        return killed


class Short(KillTest):
    def test_a_few(self) -> None:
        self.kill_pairs(1, 4)


class Many(KillTest):
    def test_sixty(self) -> None:
        for seed in range(2, 5):
            self.kill_pairs(seed, 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
