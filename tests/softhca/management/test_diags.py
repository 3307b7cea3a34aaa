# SPDX-License-Identifier: BSD-3-Clause
"""infiniband-diags, unmodified, against what the fabric is known to be: four switches, three hosts."""
import re
import unittest

from support import SOFTHCA, Background, ManagementTest

HOSTS = ("H1", "H2", "H3")
SWITCHES = 4
NODES = SWITCHES + len(HOSTS)


class Diags(ManagementTest):
    def test_ibstat_and_ibaddr_tell_the_port(self) -> None:
        for host in HOSTS:
            out = self.run_on(host, "ibstat")
            self.assertRegex(out, r"State: Active")
            self.assertRegex(out, rf"Base lid: {self.lid(host)}\n")
            self.assertRegex(out, rf"SM lid: {self.lid('H1')}\n")
        other = self.lid("H3")
        out = self.run_on("H1", "ibaddr", other)
        self.assertRegex(out, rf"GID fe80::5b00:0:0:301 LID start {other:#x} end {other:#x}")

    def test_saquery_gives_whole_tables(self) -> None:
        nodes = self.run_on("H2", "saquery", "NR")
        self.assertEqual(nodes.count("NodeRecord dump"), NODES)
        paths = self.run_on("H2", "saquery", "PR")
        self.assertEqual(paths.count("PathRecord dump"), NODES * NODES)

    def test_ibping_between_hosts(self) -> None:
        target = self.lid("H3")
        with Background(self.fabric, "H3", "ibping", "-S") as server:
            self.eventually(
                lambda: self.fabric.run("H1", "ibping", "-c", 1, "-t", 500, target).status == 0,
                "the server answers",
            )
            for host in ("H1", "H2"):
                out = self.run_on(host, "ibping", "-c", 2, target)
                self.assertEqual(out.count("Pong from H3"), 2)
                self.assertRegex(out, r"2 packets transmitted, 2 received, 0% packet loss")
            self.assertFalse(server.ended(), server.output)

    def test_smpquery_by_both_routes(self) -> None:
        target = self.lid("H3")
        out = self.run_on("H2", "smpquery", "NodeInfo", target)
        self.assertRegex(out, r"NodeType:\.+Channel Adapter")
        self.assertRegex(out, r"Guid:\.+0x5b00000000000300")
        out = self.run_on("H2", "smpquery", "PortInfo", target, 1)
        self.assertRegex(out, rf"\nLid:\.+{target}\n")
        self.assertRegex(out, r"LinkState:\.+Active")
        self.assertIn("IsClientRegistrationSupported", out)
        out = self.run_on("H2", "smpquery", "-D", "NodeInfo", "0")
        self.assertRegex(out, r"Guid:\.+0x5b00000000000200", "it starts at the host itself")
        out = self.run_on("H2", "smpquery", "-D", "NodeDesc", "0,1")
        self.assertRegex(out, r"Node Description:\.+leaf2")
        self.assertRegex(self.run_on("H3", "sminfo"), rf"sm lid {self.lid('H1')} .* SMINFO_MASTER")

    def test_perfquery_of_hosts_and_switches(self) -> None:
        out = self.run_on("H1", "perfquery", self.lid("H3"), 1)
        self.assertRegex(out, rf"# Port counters: Lid {self.lid('H3')} port 1 ")
        self.assertRegex(out, r"SymbolErrorCounter:\.+0\n")
        switches = self.run_on("H1", SOFTHCA, "ports").partition("\n\n")[2].splitlines()[1:]
        leaf = next(words[2] for words in map(str.split, switches) if words[0] == "leaf1")
        out = self.run_on("H1", "perfquery", "-a", leaf)
        self.assertRegex(out, rf"Lid {leaf} port 255 ")

    def test_ibnetdiscover_finds_the_whole_fabric(self) -> None:
        out = self.run_on("H3", "ibnetdiscover")
        self.assertEqual(len(re.findall(r"^Switch\s", out, re.MULTILINE)), SWITCHES)
        self.assertEqual(len(re.findall(r"^Ca\s", out, re.MULTILINE)), len(HOSTS))


class AllRecords(ManagementTest):
    def records(self, kind: str) -> str:
        """All records of a kind, asked for from a host that is not the subnet manager's."""
        return self.run_on("H2", "saquery", kind)

    def test_saquery_gives_every_record_of_every_kind(self) -> None:
        lids = {host: self.lid(host) for host in HOSTS}
        nodes = self.records("NR")
        self.assertEqual(nodes.count("NodeRecord dump"), NODES)
        for host in HOSTS:
            self.assertIn(f"{host} softhca0", nodes)
        ports = self.records("PIR")
        # Each port of each switch and its port 0, and one of each host.
        self.assertEqual(ports.count("PortInfoRecord dump"), SWITCHES * 37 + len(HOSTS))
        paths = self.records("PR")
        self.assertEqual(paths.count("PathRecord dump"), NODES * NODES)
        for source in lids.values():
            for target in lids.values():
                self.assertRegex(paths, rf"dlid\.+{target}\n\s+slid\.+{source}\n")
        # Both directions of each cable: leaf to spine, host to leaf.
        self.assertEqual(self.records("LR").count("LinkRecord dump"), 2 * (4 + len(HOSTS)))
        self.assertEqual(self.records("SWIR").count("SwitchInfoRecord dump"), SWITCHES)
        self.assertEqual(self.records("LFTR").count("LFT Record dump"), SWITCHES)
        managers = self.records("SMIR")
        self.assertEqual(managers.count("SMInfoRecord dump"), 1)
        self.assertRegex(managers, rf"LID\.+{lids['H1']}\n")
        self.assertGreaterEqual(self.records("GIR").count("GUIDInfo Record dump"), len(HOSTS))
        self.assertGreater(self.records("SL2VL").count("SL2VLTableRecord dump"), 1000)
        self.assertGreater(self.records("VLAR").count("VLArbTableRecord dump"), 100)
        self.assertGreaterEqual(self.records("MCMR").count("MCMember Record dump"), 1)
        # P_Key tables are told to trusted askers, who know the SM_Key.
        self.assertNotEqual(self.fabric.run("H2", "saquery", "PKTR").status, 0)
        keys = self.run_on("H2", "saquery", "--smkey", 1, "PKTR", lids["H3"])
        self.assertRegex(keys, rf"PKeyTableRecord dump:\s+LID\.+{lids['H3']}\n")
        self.assertIn("0xffff", keys.lower())
        everywhere = self.run_on("H2", "saquery", "--smkey", 1, "PKTR")
        self.assertGreaterEqual(everywhere.count("PKeyTableRecord dump"), NODES)
        self.assertEqual(self.records("SR").count("dump"), 0)
        self.assertEqual(self.records("IIR").count("dump"), 0)
        self.assertRegex(self.records("CPI"), r"Base version\.+1\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
