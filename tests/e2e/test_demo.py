# SPDX-License-Identifier: BSD-3-Clause
"""scripts/demo as a newcomer runs it, and what its report holds."""
import json
import tempfile
import unittest
from pathlib import Path

from fabric import ROOT, bounded


class Demo(unittest.TestCase):
    def demo(self, *options: object) -> tuple[dict, str]:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "demo.json"
            done = bounded([ROOT / "scripts" / "demo", "--json", report, *options], 500)
            self.assertEqual(done.status, 0, done.all)
            return json.loads(report.read_text()), done.out

    def check(self, report: dict, ranks: int, hosts: int) -> None:
        pairs = ranks * (ranks - 1) // 2
        self.assertEqual(report["ranks"], ranks)
        self.assertEqual(report["hosts"], hosts)
        self.assertEqual(report["connections"], pairs)
        self.assertEqual(report["failed"], 0)
        self.assertIs(report["verified"], True)
        sources = report["path_sources"]
        learned = sources.get("acm_multicast", 0) + sources.get("sa_query", 0)
        self.assertGreaterEqual(learned, hosts * (hosts - 1))
        self.assertNotIn("card", report["path_sources"])
        self.assertLessEqual(report["sa_path_queries"], 2 * hosts, "more than two a node")
        self.assertGreater(report["multicasts"], 0)
        self.assertGreaterEqual(report["cm_messages"], 3 * pairs)
        # Only what was repeated costs more, and is answered by an MRA while the peer is busy.
        patience = report["cm_messages_by_kind"]["MRA"]
        self.assertLessEqual(patience, report["cm_retransmits"])
        self.assertLessEqual(report["cm_messages"] - patience, 3 * pairs + report["cm_retransmits"])
        self.assertGreaterEqual(report["cm_disconnect_messages"], 2 * pairs)
        self.assertEqual(sorted(report["connect_us"]), ["max", "p50", "p99"])
        self.assertIn("OpenSM", report["fabric"]["subnet_manager"])

    def test_16_ranks_on_4_hosts(self) -> None:
        report, table = self.demo()
        self.check(report, 16, 4)
        self.assertEqual(report["fabric"]["hcas"], 4)
        for row in ("SA path queries", "retransmit", "verified"):
            self.assertIn(row.lower(), table.lower())

    def test_a_cluster_s_own_topology(self) -> None:
        topology = ROOT / "testbed" / "topologies" / "cluster-96.topo"
        report, _ = self.demo("-n", 16, "--hosts", 8, "--topology", topology)
        self.check(report, 16, 8)
        self.assertEqual(report["fabric"]["switches"], 6)
        self.assertEqual(report["fabric"]["hcas"], 96)


if __name__ == "__main__":
    unittest.main(verbosity=2)
