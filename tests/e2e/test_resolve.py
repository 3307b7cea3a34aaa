# SPDX-License-Identifier: BSD-3-Clause
"""Paths without a connection: every rank to all others, with datagrams along them, and changes."""
import json
import tempfile
import time
import unittest
from pathlib import Path

from fabric import BUILD, EXAMPLES, TOOL, Fabric, Output, bounded

PROGRAM = BUILD / "tests" / "e2e" / "resolve_all"
RANKS = 8


class Resolve(unittest.TestCase):
    fabric: Fabric

    @classmethod
    def setUpClass(cls) -> None:
        cls.fabric = Fabric("--hosts", 4, name="resolve").__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def setUp(self) -> None:
        # Of all hosts: their /tmp is their own.
        self.notes = tempfile.TemporaryDirectory(prefix="resolve_all.", dir=BUILD / "tests" / "e2e")
        self.addCleanup(self.notes.cleanup)

    def rows(self, done: Output, rounds: int) -> dict[tuple[int, int], dict]:
        """What the ranks printed, by round and rank."""
        self.assertEqual(done.status, 0, done.all)
        rows = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
        self.assertEqual(len(rows), rounds * RANKS, done.all)
        for row in rows:
            self.assertEqual((row["connected"], row["cm_sent"]), (0, 0), "no connection is made")
        return {(row["round"], row["rank"]): row for row in rows}

    def test_every_rank_resolves_all_and_reaches_them(self) -> None:
        rows = self.rows(self.fabric.mpirun("-n", RANKS, PROGRAM, self.notes.name), 1)
        lids = rows[1, 0]["dlids"]
        self.assertEqual(len(set(lids)), 4, "two ranks on each of four hosts")
        for row in rows.values():
            self.assertEqual(row["dlids"], lids)
            self.assertEqual(row["mistaken"], 0)

    def test_the_example(self) -> None:
        done = self.fabric.mpirun("-n", RANKS, EXAMPLES / "datagrams")
        self.assertEqual(done.status, 0, done.all)
        for rank in range(RANKS):
            before = (rank - 1) % RANKS
            self.assertRegex(done.out, rf"rank {rank}: LID \d+, .*; rank {before} has written")

    def test_a_failed_path_is_told_to_the_node(self) -> None:
        self.rows(self.fabric.mpirun("-n", RANKS, PROGRAM, self.notes.name, "fail"), 1)

    def test_all_reach_each_other_after_a_lasting_change_of_a_lid(self) -> None:
        job = ("-n", RANKS, PROGRAM, self.notes.name, "lid")
        with self.fabric.job(*job, seconds=200) as running:
            stages = [Path(self.notes.name) / f"stage.{rank}" for rank in range(RANKS)]
            deadline = time.monotonic() + 120
            while not all(stage.exists() for stage in stages) and running.poll() is None:
                self.assertLess(time.monotonic(), deadline, "the first round does not end")
                time.sleep(0.05)
            moved = bounded([TOOL, "sm", "--name", self.fabric.name, "lid", "H2", "77"], 60)
            self.assertEqual(moved.status, 0, moved.all)
            out, err = running.communicate(timeout=200)
        rows = self.rows(Output(running.returncode, out, err), 2)
        for rank in range(RANKS):
            before, after = rows[1, rank]["dlids"], rows[2, rank]["dlids"]
            self.assertNotIn(77, before)
            self.assertEqual(after.count(77), 2, "the two ranks of H2")
            self.assertEqual([lid for lid in after if lid != 77],
                             [old for old, new in zip(before, after) if new != 77])  # fmt: skip


if __name__ == "__main__":
    unittest.main(verbosity=2)
