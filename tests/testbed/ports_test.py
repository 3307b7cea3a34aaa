#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The states of ports as ibsim's console and `softhca ports` print them."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "testbed"))

from ibfabric import ports  # noqa: E402
from ibfabric.ports import PortState  # noqa: E402

DUMP = """\
sim> # Net status - Mon Nov 30 00:50:10 2026

Switch 36 "S-1"\tnodeguid 1\tsysimgguid 1
#\tlinearcap 30720 FDBtop 8 portchange 0
0000000000000001\t[0]\t"Sma Port"[0]\t lid 2 lmc 0 smlid 1  4x  2.5G Active/LinkUp
0000000000000001\t[1]\t"H-1"[1]\t  4x  25G Active/LinkUp

Ca 2 "H-1"\tnodeguid 10\tsysimgguid 10
0000000000000011\t[1]\t"S-1"[1]\t lid 1 lmc 0 smlid 1  4x  25G Active/LinkUp
0000000000000012\t[2]\t"S-1"[2]\t lid 0 lmc 0 smlid 0  4x  25G Init/LinkUp

Ca 1 "H-2"\tnodeguid 20\tsysimgguid 20
0000000000000021\t[1]\t\t\t  4x  2.5G Down/Polling
#  dumped 3 nodes
sim> """

TABLE = """\
HOST         DEVICE     PORT STATE      LID LMC SMLID   MTU RATE      GID
n1           softhca0      1 ACTIVE       1   0     1  2048 100       fe80::1
n1           softhca1      1 INIT         0   0     0  2048 100       fe80::2
n2           softhca0      1 ACTIVE       7   0     1  2048 100       fe80::3
n2           softhca0      2 DOWN         0   0     0  2048 2.5       fe80::4

SWITCH       GUID                 LID PORTS  LFTTOP MLIDS
n3           0x5a00000000000100     2    36       8     0
"""


class Ports(unittest.TestCase):
    def test_linked_hca_ports_of_a_dump(self) -> None:
        expected = {("H-1", 1): PortState(1, "Active"), ("H-1", 2): PortState(0, "Init")}
        self.assertEqual(expected, ports.parse_dump(DUMP))
        self.assertEqual({}, ports.parse_dump(""))

    def test_table_of_softhca_up_to_the_switches(self) -> None:
        expected = {
            "n1": {1: [PortState(1, "ACTIVE"), PortState(0, "INIT")]},
            "n2": {1: [PortState(7, "ACTIVE")], 2: [PortState(0, "DOWN")]},
        }
        self.assertEqual(expected, ports.parse_ports(TABLE))
        self.assertEqual({}, ports.parse_ports(""))

    def test_which_wanted_ports_are_not_published_as_active(self) -> None:
        published = ports.parse_ports(TABLE)
        self.assertEqual([], ports.unpublished({("n1", 1): 1, ("n2", 1): 1}, published))
        self.assertEqual(
            [
                "n1 port 1 is ACTIVE, INIT in what softhca's agent published",
                "n2 port 2 is DOWN in what softhca's agent published",
                "n9 port 1 is absent in what softhca's agent published",
            ],
            ports.unpublished({("n1", 1): 2, ("n2", 2): 1, ("n9", 1): 1}, published),
        )


if __name__ == "__main__":
    unittest.main()
