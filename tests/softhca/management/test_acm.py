# SPDX-License-Identifier: BSD-3-Clause
"""ibacm on two hosts, unmodified: name resolution by real multicast, paths by the real SA."""
import shutil
import tempfile
import unittest
from pathlib import Path

from support import SOFTHCA, Background, ManagementTest
from fabric import BUILD

OPTIONS = """\
log_file {log}
log_level 1
lock_file /run/ibacm.pid
addr_prot acm
route_prot sa
loopback_prot local
server_mode unix
acme_plus_kernel_only no
timeout 2000
retries 4
provider ibacmp default
support_ips_in_addr_cfg 1
"""
SOCKET = "/run/ibacm-unix.sock"


class Acm(ManagementTest):
    options = ("--hosts", 2)

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.place = Path(tempfile.mkdtemp(prefix="softhca-acm-"))
        cls.daemons = []
        for number in (1, 2):
            options = cls.place / f"opts{number}"
            addresses = cls.place / f"addr{number}"
            options.write_text(OPTIONS.format(log=cls.place / f"log{number}"))
            addresses.write_text(
                f"node{number} softhca0 1 default\n10.77.0.{number} softhca0 1 default\n"
            )
            cls.daemons.append(
                Background(
                    cls.fabric, f"H{number}", "ibacm", "-P", "-O", options, "-A", addresses,
                    seconds=240,
                )
            )

    @classmethod
    def tearDownClass(cls) -> None:
        for daemon in cls.daemons:
            daemon.__exit__()
        super().tearDownClass()
        shutil.rmtree(cls.place)

    def setUp(self) -> None:
        for host in ("H1", "H2"):
            self.eventually(
                lambda h=host: self.fabric.run(h, "test", "-S", SOCKET).status == 0,
                f"{host}'s ibacm listens",
            )
        # This ibacm asks once and never again, so nobody is asked before both have joined.
        self.eventually(self.joined, "both daemons are members of the ACM group")

    def joined(self) -> bool:
        """The leaf switch of each host forwards a multicast group."""
        switches = self.run_on("H1", SOFTHCA, "ports").partition("\n\n")[2].splitlines()[1:]
        groups = {words[0]: int(words[-1]) for words in map(str.split, switches)}
        return groups["leaf1"] > 0 and groups["leaf2"] > 0

    def acme(self, host: str, kind: str, source: object, target: object):
        return self.fabric.run(
            host, "ib_acme", "-f", kind, "-s", source, "-d", target, "-v", "-S", SOCKET, seconds=20
        )

    def resolves(self, kind: str, source: object, target: object) -> None:
        here, there = self.lid("H1"), self.lid("H2")

        def resolved() -> bool:
            nonlocal done
            done = self.acme("H1", kind, source, target)
            return done.status == 0 and "SA verification: success" in done.out

        done = self.acme("H1", kind, source, target)
        self.eventually(resolved, f"{target} is resolved")
        self.assertRegex(done.out, rf"dlid: {there}\n\s*slid: {here}\n")
        self.assertRegex(done.out, r"dgid: fe80::5b00:0:0:201\n\s*sgid: fe80::5b00:0:0:101\n")
        self.assertIn("return status 0x0", done.out)

    def test_names_by_multicast(self) -> None:
        self.resolves("n", "node1", "node2")
        stats = self.fabric.stats()["total"]
        self.assertGreaterEqual(stats["multicasts_sent"], 1)
        self.assertGreaterEqual(stats["multicasts_received"], 1)

    def test_ip_addresses(self) -> None:
        self.resolves("i", "10.77.0.1", "10.77.0.2")

    def test_gids_and_lids(self) -> None:
        self.resolves("g", "fe80::5b00:0:0:101", "fe80::5b00:0:0:201")
        self.resolves("l", self.lid("H1"), self.lid("H2"))

    def test_librdmacm_gets_its_route_from_the_hosts_socket(self) -> None:
        self.resolves("i", "10.77.0.1", "10.77.0.2")
        lookup = BUILD / "tests" / "softhca" / "rdma_lookup"
        out = self.run_on("H1", lookup, "10.77.0.1", "10.77.0.2")
        self.assertEqual(out, f"slid {self.lid('H1')} dlid {self.lid('H2')}\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
