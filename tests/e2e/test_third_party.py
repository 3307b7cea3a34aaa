# SPDX-License-Identifier: BSD-3-Clause
"""What a host of the fabric shows of itself and of others to programs that nobody here wrote."""
import re
import unittest

from fabric import Fabric


class ThirdParty(unittest.TestCase):
    fabric: Fabric

    @classmethod
    def setUpClass(cls) -> None:
        cls.fabric = Fabric("--hosts", 4, name="third").__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def test_ibv_devinfo_shows_an_active_infiniband_port(self) -> None:
        done = self.fabric.run("H2", "ibv_devinfo", "-v")
        self.assertEqual(done.status, 0, done.all)
        self.assertRegex(done.out, r"hca_id:\s+softhca0")
        self.assertRegex(done.out, r"state:\s+PORT_ACTIVE")
        self.assertRegex(done.out, r"link_layer:\s+InfiniBand")
        lid = re.search(r"port_lid:\s+(\d+)", done.out)
        self.assertIsNotNone(lid)
        self.assertGreater(int(lid.group(1)), 0)

    def test_saquery_path_record_of_a_pair(self) -> None:
        lids = {}
        for host in ("H1", "H4"):
            out = self.fabric.run(host, "ibv_devinfo").out
            lids[host] = re.search(r"port_lid:\s+(\d+)", out).group(1)
        done = self.fabric.run("H4", "saquery", "PR", "--slid", lids["H4"], "--dlid", lids["H1"])
        self.assertEqual(done.status, 0, done.all)
        self.assertRegex(done.out, rf"dlid\.+{lids['H1']}\b")
        self.assertRegex(done.out, rf"slid\.+{lids['H4']}\b")


if __name__ == "__main__":
    unittest.main(verbosity=2)
