#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The figures of the demo: counters before and after, joined with the job's own."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "testbed"))

from ibfabric import report  # noqa: E402
from ibfabric.errors import FabricError  # noqa: E402

JOB = {
    "ranks": 16,
    "hosts": 4,
    "connections": 120,
    "failed": 0,
    "verified": True,
    "path_sources": {"local": 24, "acm_multicast": 96},
    "cm_carrier": "ud: a UD queue pair of our own (0x000123), the first choice",
    "cm_retransmits": 2,
    "connect_us": {"p50": 210.4, "p99": 1234.0, "max": 2_500_000},
}
NAMES = ("cm_req", "cm_rep", "cm_rtu", "cm_rej", "cm_mra", "cm_dreq", "cm_drep")
BEFORE = {"sa_path_queries": 5, "multicasts_sent": 7, **{name: 10 for name in NAMES}}
AFTER = {
    "sa_path_queries": 6,
    "multicasts_sent": 27,
    "cm_req": 132,
    "cm_rep": 130,
    "cm_rtu": 130,
    "cm_rej": 11,
    "cm_mra": 10,
    "cm_dreq": 130,
    "cm_drep": 131,
}
FABRIC = {"subnet_manager": "OpenSM 3.3.23", "switches": 4, "hcas": 4, "init": 77}


class Report(unittest.TestCase):
    def test_counts_are_differences(self) -> None:
        merged = report.merge(JOB, BEFORE, AFTER, FABRIC)
        self.assertEqual(1, merged["sa_path_queries"])
        self.assertEqual(20, merged["multicasts"])
        self.assertEqual(122 + 120 + 120 + 1 + 0, merged["cm_messages"])
        self.assertEqual(120 + 121, merged["cm_disconnect_messages"])
        self.assertEqual(
            {"subnet_manager": "OpenSM 3.3.23", "switches": 4, "hcas": 4}, merged["fabric"]
        )
        self.assertEqual(JOB["connect_us"], merged["connect_us"])

    def test_table(self) -> None:
        self.assertEqual(
            "  ranks            16 on 4 hosts\n"
            "  fabric           4 switches, 4 HCAs, OpenSM 3.3.23\n"
            "  connections      120 made, 0 failed\n"
            "  paths from       acm_multicast 96, local 24\n"
            "  SA path queries  1\n"
            "  multicasts       20\n"
            "  CM messages      3.02 per connection (REQ 122, REP 120, RTU 120, REJ 1, MRA 0)\n"
            "  carried by       ud: a UD queue pair of our own (0x000123), the first choice\n"
            "  to disconnect    241\n"
            "  CM retransmits   2\n"
            "  connect time     p50 210 µs, p99 1.2 ms, max 2.50 s\n"
            "  data             verified",
            report.table(report.merge(JOB, BEFORE, AFTER, FABRIC)),
        )

    def test_what_is_good(self) -> None:
        merged = report.merge(JOB, BEFORE, AFTER, FABRIC)
        self.assertTrue(report.good(merged))
        self.assertFalse(report.good({**merged, "failed": 1}))
        self.assertFalse(report.good({**merged, "connections": 119}))
        self.assertFalse(report.good({**merged, "verified": False}))
        self.assertIn("NOT VERIFIED", report.table({**merged, "verified": False}))
        self.assertIn("CM messages      - per", report.table({**merged, "connections": 0}))

    def test_what_is_missing_is_named(self) -> None:
        job = {key: value for key, value in JOB.items() if key not in ("ranks", "verified")}
        with self.assertRaisesRegex(FabricError, "lacks ranks, verified"):
            report.merge(job, BEFORE, AFTER, FABRIC)
        with self.assertRaisesRegex(FabricError, "counts no cm_mra"):
            report.merge(JOB, {}, {k: v for k, v in AFTER.items() if k != "cm_mra"}, FABRIC)


if __name__ == "__main__":
    unittest.main()
