# SPDX-License-Identifier: BSD-3-Clause
"""PMIx-only programs on the fabric: attributes against the SA, a busy rank, failing peers."""
import json
import re
import unittest

from fabric import BUILD, Fabric, Output

PROGRAMS = BUILD / "tests" / "e2e"


def json_lines(done: Output) -> list[dict]:
    return [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]


class Programs(unittest.TestCase):
    fabric: Fabric

    @classmethod
    def setUpClass(cls) -> None:
        cls.fabric = Fabric("--hosts", 4, name="prog").__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def sa_record(self, slid: int, dlid: int) -> dict[str, int]:
        done = self.fabric.run("H1", "saquery", "PR", "--slid", slid, "--dlid", dlid)
        self.assertEqual(done.status, 0, done.all)
        record = {}
        for name in ("mtu", "rate", "sl"):
            value = re.search(rf"\b{name}\.+(0x[0-9a-fA-F]+|\d+)", done.out)
            self.assertIsNotNone(value, done.out)
            record[name] = int(value.group(1), 0)
        return record

    def test_attributes_equal_the_path_records_of_the_sa(self) -> None:
        done = self.fabric.mpirun("-n", 4, PROGRAMS / "qp_attributes")
        self.assertEqual(done.status, 0, done.all)
        rows = json_lines(done)
        self.assertEqual(len(rows), 12, done.all)
        ends = {(row["rank"], row["peer"]): row for row in rows}
        for (rank, peer), row in ends.items():
            record = self.sa_record(row["slid"], row["dlid"])
            with self.subTest(rank=rank, peer=peer, record=record, row=row):
                self.assertEqual(row["mtu"], record["mtu"] & 0x3F)
                self.assertEqual(row["record_rate"], record["rate"] & 0x3F)
                self.assertEqual(row["sl"], record["sl"])
                self.assertIn(row["origin"], ("acm_multicast", "sa_query"))
                self.assertEqual(row["state"], 3, "RTS")
                other = ends[peer, rank]
                self.assertEqual(row["dest_qpn"], other["qpn"])
                self.assertEqual(row["sq_psn"], other["rq_psn"])
                self.assertEqual(row["dlid"], other["slid"])

    def test_without_a_resolver_the_path_is_the_cards(self) -> None:
        queries = self.fabric.stats()["total"]["sa_path_queries"]
        done = self.fabric.mpirun("-n", 4, PROGRAMS / "qp_attributes", "--no-resolver")
        self.assertEqual(done.status, 0, done.all)
        rows = json_lines(done)
        self.assertEqual(len(rows), 12, done.all)
        self.assertEqual(self.fabric.stats()["total"]["sa_path_queries"], queries)
        for row in rows:
            # On this fabric, whose paths are all alike, the cards say what the SA would.
            record = self.sa_record(row["slid"], row["dlid"])
            with self.subTest(record=record, row=row):
                self.assertEqual((row["origin"], row["sl"], row["state"]), ("card", 0, 3))
                self.assertEqual(row["mtu"], record["mtu"] & 0x3F)
                self.assertEqual(row["record_rate"], record["rate"] & 0x3F)
                self.assertRegex(row["text"], r"card.*verified by nobody.*no process of this node")

    def test_a_rank_that_computes_answers_within_100_ms(self) -> None:
        done = self.fabric.mpirun("-n", 2, PROGRAMS / "busy_rank")
        self.assertEqual(done.status, 0, done.all)
        (row,) = json_lines(done)
        self.assertLessEqual(row["longest_ms"], 100, row)

    def check_survivors(self, done: Output, ranks: int, victim: int, timeout_ms: int) -> None:
        rows = {row["rank"]: row for row in json_lines(done)}
        self.assertEqual(sorted(rows), [r for r in range(ranks) if r != victim], done.all)
        for row in rows.values():
            with self.subTest(row=row):
                self.assertEqual(row["connected"], ranks - 2)
                self.assertEqual(row["unanswered"], 0)
                (failure,) = row["failures"]
                self.assertEqual(failure["rank"], victim)
                self.assertIn(failure["step"], ("card", "path", "request"))
                self.assertLess(failure["after_ms"], timeout_ms + 1500)
                self.assertRegex(failure["text"], rf"rank {victim}\b")
                self.assertLess(row["close_ms"], 5000)

    def test_a_killed_rank_fails_alone(self) -> None:
        done = self.fabric.mpirun(
            "--enable-recovery", "-n", 8, PROGRAMS / "failing_peer", "kill", 3, 3000, seconds=60
        )
        self.check_survivors(done, 8, 3, 3000)

    def test_a_stopped_rank_fails_alone(self) -> None:
        done = self.fabric.mpirun(
            "--enable-recovery", "-n", 8, PROGRAMS / "failing_peer", "stop", 3, 3000, seconds=60
        )
        self.check_survivors(done, 8, 3, 3000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
