# SPDX-License-Identifier: BSD-3-Clause
"""Programs that nobody here wrote, unmodified, between two hosts of the fabric."""
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

    def pair(self, server: list[object], client: list[object]) -> tuple[str, str]:
        """Runs a server on H1 and its client on H3; both must end with status 0."""
        done, served = self.fabric.pair(("H1", "H3"), server, [*client, "H1"])
        self.assertEqual(done.status, 0, done.all + served.all)
        self.assertEqual(served.status, 0, served.all)
        return served.out, done.out

    def test_ibv_devinfo_shows_an_active_infiniband_port(self) -> None:
        done = self.fabric.run("H2", "ibv_devinfo", "-v")
        self.assertEqual(done.status, 0, done.all)
        self.assertRegex(done.out, r"hca_id:\s+softhca0")
        self.assertRegex(done.out, r"state:\s+PORT_ACTIVE")
        self.assertRegex(done.out, r"link_layer:\s+InfiniBand")
        lid = re.search(r"port_lid:\s+(\d+)", done.out)
        self.assertIsNotNone(lid)
        self.assertGreater(int(lid.group(1)), 0)

    def test_ibv_rc_pingpong_moves_its_bytes_both_ways(self) -> None:
        for out in self.pair(["ibv_rc_pingpong", "-c"], ["ibv_rc_pingpong", "-c"]):
            self.assertRegex(out, r"8192000 bytes in")
            self.assertNotIn("invalid data", out)

    def test_ibv_rc_pingpong_with_completion_events(self) -> None:
        for out in self.pair(["ibv_rc_pingpong", "-e"], ["ibv_rc_pingpong", "-e"]):
            self.assertRegex(out, r"8192000 bytes in")

    def test_ibv_ud_pingpong_with_a_global_route_header(self) -> None:
        for out in self.pair(["ibv_ud_pingpong", "-g", "0"], ["ibv_ud_pingpong", "-g", "0"]):
            self.assertRegex(out, r"2048000 bytes in")

    def test_ib_write_lat(self) -> None:
        _, out = self.pair(["ib_write_lat", "-n", "200", "-F"], ["ib_write_lat", "-n", "200", "-F"])
        self.assertRegex(out, r"\n\s*2\s+200\s")

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
