# SPDX-License-Identifier: BSD-3-Clause
"""The main job: every pair of ranks connects, moves checked data, and disconnects."""
import json
import tempfile
import unittest
from pathlib import Path

from fabric import BUILD, EXAMPLES, ROOT, Fabric

CLUSTER = ROOT / "testbed" / "topologies" / "cluster-96.topo"


def delta(after: dict, before: dict, name: str) -> int:
    return after["total"][name] - before["total"][name]


class MainJob(unittest.TestCase):
    def connect_all(
        self, fabric: Fabric, ranks: int, *options: object, seconds: int = 120, bulk: str = "auto"
    ) -> tuple[dict, dict]:
        """Runs connect_all; returns its report and softhca's counters of the run. `bulk`: is the SA
        asked for all paths of a node at once?"""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            before = fabric.stats()
            done = fabric.mpirun(
                "-x", f"WIREUP_SA_BULK={bulk}",
                "-n", ranks, EXAMPLES / "connect_all", "--json", report, *options, seconds=seconds
            )
            after = fabric.stats()
            self.assertEqual(done.status, 0, done.all)
            counters = {name: delta(after, before, name) for name in after["total"]}
            return json.loads(report.read_text()), counters

    def check(self, report: dict, ranks: int, hosts: int) -> None:
        self.assertEqual(report["ranks"], ranks)
        self.assertEqual(report["hosts"], hosts)
        self.assertEqual(report["connections"], ranks * (ranks - 1) // 2)
        self.assertEqual(report["failed"], 0)
        self.assertIs(report["verified"], True)
        times = report["connect_us"]
        self.assertGreater(times["p50"], 0)
        self.assertLessEqual(times["p50"], times["p99"])
        self.assertLessEqual(times["p99"], times["max"])

    def test_over_qp1(self) -> None:
        """One rank a host, since one process of a port can have QP1's CM class."""
        with Fabric("--hosts", 3, name="mainqp1") as fabric:
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder) / "report.json"
                done = fabric.mpirun(
                    *("-x", "WIREUP_CM_CARRIER=gsi", "-n", 3, EXAMPLES / "connect_all"),
                    *("--json", report, "--both"), seconds=120,
                )
                self.assertEqual(done.status, 0, done.all)
                told = json.loads(report.read_text())
            self.check(told, 3, 3)
            self.assertRegex(told["cm_carrier"], r"^gsi: .*as WIREUP_CM_CARRIER says$")

    def test_the_carrier_that_is_forced_or_none(self) -> None:
        """Two ranks of a host cannot both have QP1."""
        with Fabric("--hosts", 2, name="mainqp1x2") as fabric:
            done = fabric.mpirun(
                *("-x", "WIREUP_CM_CARRIER=gsi", "--host", "H1:2", "-n", 2),
                EXAMPLES / "connect_all", seconds=120,
            )
            self.assertNotEqual(done.status, 0, done.all)
            self.assertIn("softhca0", done.all)
            self.assertRegex(done.all, r"(?i)class|owns|taken")

    def test_ranks_with_different_carriers_say_so(self) -> None:
        with Fabric("--hosts", 2, name="mainqp1mix") as fabric:
            program = [EXAMPLES / "connect_all", "--both"]
            done = fabric.mpirun(
                *("-n", 1, "-x", "WIREUP_CM_CARRIER=gsi", *program), ":",
                *("-n", 1, "-x", "WIREUP_CM_CARRIER=ud", *program), seconds=120,
            )
            self.assertNotEqual(done.status, 0, done.all)
            self.assertRegex(done.all, r"takes CM messages over (ud|gsi), this process sends")

    def check_paths(self, report: dict, counters: dict, hosts: int) -> None:
        sources = report["path_sources"]
        learned = sources.get("acm_multicast", 0) + sources.get("sa_query", 0)
        self.assertGreaterEqual(learned, hosts * (hosts - 1))
        self.assertEqual(sources.get("card", 0), 0)
        self.assertLessEqual(counters["sa_path_queries"], 2 * hosts, "more than two a node")
        self.assertGreater(counters["multicasts_sent"], 0)

    def check_multicast_paths(self, report: dict, counters: dict, hosts: int) -> None:
        self.check_paths(report, counters, hosts)
        self.assertEqual(report["path_sources"].get("sa_query", 0), 0)
        self.assertEqual(counters["sa_path_queries"], 0)

    def test_16_ranks_on_4_hosts(self) -> None:
        with Fabric("--hosts", 4, name="main") as fabric:
            report, counters = self.connect_all(fabric, 16)
            self.check(report, 16, 4)
            self.check_paths(report, counters, 4)
            # One REQ, REP and RTU, one DREQ and DREP per connection; retransmissions beyond.
            self.assertGreaterEqual(counters["cm_req"], 120)
            self.assertGreaterEqual(counters["cm_rep"], 120)
            self.assertGreaterEqual(counters["cm_rtu"], 120)
            self.assertGreaterEqual(counters["cm_dreq"], 120)
            self.assertGreaterEqual(counters["cm_drep"], 120)
            self.assertEqual(counters["cm_rej"], 0)

    def test_both_sides_at_once(self) -> None:
        with Fabric("--hosts", 4, name="cross") as fabric:
            report, counters = self.connect_all(fabric, 16, "--both")
            self.check(report, 16, 4)
            self.assertEqual(counters["cm_rej"], 0)
            # A crossing connect costs at most one message more: the request that loses.
            self.assertLessEqual(
                counters["cm_req"], 2 * 120 + report["cm_retransmits"], "more than two REQs a pair"
            )

    def test_work_completed_later_than_posted(self) -> None:
        with Fabric("--hosts", 4, name="async", asynchronous=1) as fabric:
            report, counters = self.connect_all(fabric, 16, "--both")
            self.check(report, 16, 4)
            self.assertEqual(counters["cm_rej"], 0)

    def test_64_ranks_on_4_hosts(self) -> None:
        with Fabric("--hosts", 4, name="big") as fabric:
            report, counters = self.connect_all(fabric, 64, seconds=240, bulk="never")
            self.check(report, 64, 4)
            self.check_multicast_paths(report, counters, 4)

    def test_8_hosts_of_a_real_cluster(self) -> None:
        with Fabric("--hosts", 8, "--topology", CLUSTER, name="cluster") as fabric:
            report, counters = self.connect_all(fabric, 64, seconds=240)
            self.check(report, 64, 8)
            self.check_paths(report, counters, 8)

    def test_datagrams_lost_doubled_and_reordered(self) -> None:
        with Fabric("--hosts", 4, name="loss") as fabric:
            fabric.fault("ud", "--drop", "20%", "--duplicate", "10%", "--reorder", "10%", "--seed", 7)
            report, counters = self.connect_all(fabric, 16, "--both", seconds=240)
            self.check(report, 16, 4)
            self.assertGreater(counters["ud_dropped_fault"], 0)
            self.assertGreater(counters["ud_duplicated_fault"], 0)
            self.assertGreater(counters["ud_reordered_fault"], 0)
            self.assertGreater(report["cm_retransmits"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
