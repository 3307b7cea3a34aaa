# SPDX-License-Identifier: BSD-3-Clause
"""General services at the second port of an HCA: a way of its own, with its own LID and GID."""
import re
import unittest
from pathlib import Path

from support import SOFTHCA, Background, ManagementTest

TOPOLOGY = Path(__file__).resolve().parent / "two_ports.topo"
RECORDS = 6  # one of each switch and of each port of a host
SECOND = ("-C", "softhca0", "-P", 2)


class SecondPort(ManagementTest):
    options = ("--topology", TOPOLOGY)

    def setUp(self) -> None:
        self.fault("gsi", "clear")
        table = self.run_on("H1", SOFTHCA, "ports").partition("\n\n")[0]
        rows = [line.split() for line in table.splitlines()[1:]]
        self.lids = {(row[0], int(row[2])): int(row[4]) for row in rows}
        self.assertEqual(len(set(self.lids.values())), 4, table)

    def hits(self, rule: str) -> int:
        shown = self.fault("gsi", "list")
        found = re.search(rf"^{re.escape(rule)}: matched \d+, hit (\d+)$", shown, re.MULTILINE)
        self.assertIsNotNone(found, shown)
        return int(found.group(1))

    def test_addresses_are_its_own(self) -> None:
        lid = self.lids["H2", 2]
        self.assertRegex(
            self.run_on("H2", "ibaddr", *SECOND),
            rf"GID fe80::5b00:0:0:202 LID start {lid:#x} end {lid:#x}",
        )
        self.assertRegex(self.run_on("H2", "ibstat", "softhca0", 2), rf"Base lid: {lid}\n")

    def test_the_administrator_is_asked_from_there(self) -> None:
        records = self.run_on("H2", "saquery", *SECOND, "NR").count("NodeRecord dump")
        self.assertEqual(records, RECORDS)
        # A question and an answer of one MAD each, which nobody sends again once it has failed.
        question = ("saquery", "-t", 200, "CPI")
        for rule in ("gsi drop --src H2:softhca0:2 --class sa",
                     "gsi drop --dst H2:softhca0:2 --class sa"):
            self.fault(*rule.split())
            self.assertNotEqual(self.fabric.run("H2", *question, *SECOND).status, 0)
            before = self.hits(rule)
            self.assertGreater(before, 0)
            self.assertIn("Base version", self.run_on("H2", "saquery", "CPI"))
            self.assertEqual(self.hits(rule), before, "port 1 has nothing to do with it")
            self.fault("gsi", "clear")

    def test_a_program_at_the_second_port_serves_that_port(self) -> None:
        first, second = self.lids["H1", 1], self.lids["H1", 2]
        with Background(self.fabric, "H1", "ibping", "-S", *SECOND) as server:
            self.eventually(
                lambda: self.fabric.run(
                    "H2", "ibping", *SECOND, "-c", 1, "-t", 500, second
                ).status == 0,
                "the server answers",
            )
            for port in (1, 2):
                out = self.run_on("H2", "ibping", "-C", "softhca0", "-P", port, "-c", 2, second)
                self.assertEqual(out.count("Pong from H1"), 2, out)
            out = self.fabric.run("H2", "ibping", *SECOND, "-c", 1, "-t", 300, first).all
            self.assertIn("100% packet loss", out, "nobody serves port 1")
            self.assertFalse(server.ended(), server.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
