# SPDX-License-Identifier: BSD-3-Clause
"""Paths of those who may not ask the fabric, by a running ibacm; and paths to hosts that run no ACM
at all."""
import os
import shutil
import tempfile
import unittest
from pathlib import Path

from test_fabric import Client
from test_service import OPTIONS, SOCKET, WIREUP, Background, ManagementTest

ROOT = os.geteuid() == 0
THERE = "fe80::5b00:0:0:201"
BACK = "fe80::5b00:0:0:101"


def as_user(uid: int) -> "tuple[object, ...]":
    return ("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups")


@unittest.skipUnless(ROOT, "needs a second user on a fabric that was started without root")
class Borrowed(ManagementTest):
    """Ranks of an ordinary user, on a kernel that keeps the ACM's Q_Key for the privileged."""

    options = ("--hosts", 2)

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.place = Path(tempfile.mkdtemp(prefix="wireup-sources-"))
        cls.place.chmod(0o755)
        cls.fabric.fault("qkeys", "restricted")

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        shutil.rmtree(cls.place)

    def rank(self, host: str) -> Client:
        client = Client(self.fabric, host, prefix=as_user(1000))
        self.addCleanup(client.end)
        return client

    def ibacm(self, host: str) -> Background:
        number = host[1:]
        options = self.place / f"options{number}"
        addresses = self.place / f"addresses{number}"
        options.write_text(OPTIONS.format(log=self.place / f"log{number}"))
        addresses.write_text(f"node{number} softhca0 1 default\n")
        return Background(self.fabric, host, "ibacm", "-P", "-O", options, "-A", addresses)

    def resolved(self, client: Client, target: str) -> "dict[str, str]":
        """A service that has just started may not have joined its groups yet."""
        answer = ""

        def is_path() -> bool:
            nonlocal answer
            answer = client.ask(f"resolve {target} 20000", 40)
            return answer.startswith("path ")

        self.eventually(is_path, "a path by the service")
        return client.path(f"resolve {target} 20000")

    def test_ibacm_tells_the_path_and_when_it_is_gone_the_error_names_both(self) -> None:
        first = self.rank("H1")
        # Neither the privilege nor an ibacm.
        answer = first.ask(f"resolve {THERE} 20000", 40)
        self.assertRegex(answer, "^failed NoPermission no ibacm or wireup serve at /run/ibacm.sock")
        self.assertIn("CAP_NET_RAW", answer)
        with self.ibacm("H1"):
            path = self.resolved(first, THERE)
            self.assertEqual(path["origin"], "ibacm")
            self.assertEqual(path["dlid"], str(self.lid("H2")))
            self.assertEqual(path["slid"], str(self.lid("H1")))
            self.assertEqual(first.ask("resolver"), "yes")
            # Every rank of the node has it now, from the cache.
            second = self.rank("H1")
            self.assertEqual(second.ask("resolver"), "no")
            self.assertEqual(second.path(f"lookup {THERE}")["origin"], "ibacm")
            self.assertEqual(second.path(f"resolve {THERE} 20000")["dlid"], path["dlid"])
            # A path that failed is asked of the SA, past ibacm's cache.
            first.ask(f"fail {THERE}")
            self.assertEqual(first.path(f"resolve {THERE} 20000")["origin"], "ibacm")
            # A port that does not exist.
            answer = first.ask("resolve fe80::dead 20000", 40)
            self.assertRegex(answer, "^failed PathUnresolved the service at /run/ibacm.sock")
        first.ask(f"fail {THERE}")
        answer = first.ask(f"resolve {THERE} 20000", 40)
        self.assertRegex(answer, "^failed NoPermission no ibacm or wireup serve.*CAP_NET_RAW")
        # It is started again: nothing has to be done for it.
        with self.ibacm("H1"):
            self.assertEqual(self.resolved(first, THERE)["origin"], "ibacm")

    def test_roots_service_is_the_resolver_of_every_users_ranks(self) -> None:
        with Background(self.fabric, "H2", WIREUP, "serve") as service:
            self.eventually(
                lambda: self.fabric.run("H2", "test", "-S", SOCKET).status == 0, service.output
            )
            rank = self.rank("H2")
            path = self.resolved(rank, BACK)
            self.assertEqual((path["origin"], path["dlid"]), ("sa_query", str(self.lid("H1"))))


class Identified(ManagementTest):
    """`wireup serve` on H1 and nothing at all on H2."""

    options = ("--hosts", 2)

    def serve(self, place: Path) -> Background:
        (place / "hosts").write_text(f"elsewhere {THERE}\n10.77.0.2 {THERE}\n")
        (place / "options").write_text(
            f"addr_preload acm_hosts\naddr_data_file {place}/hosts\nsupport_ips_in_addr_cfg 1\n"
        )
        (place / "addresses").write_text(
            "node1 softhca0 1 default\n10.77.0.1 softhca0 1 default\n"
        )
        files = ["--options", place / "options", "--addresses", place / "addresses"]
        return Background(self.fabric, "H1", WIREUP, "serve", *files)

    def path_to(self, kind: str, target: object, source: object) -> str:
        words = ("ib_acme", "-f", kind, "-s", source, "-d", target, "-v", "-S", SOCKET)
        return self.fabric.run("H1", *words, seconds=40).all

    def test_a_port_without_acm(self) -> None:
        with tempfile.TemporaryDirectory(prefix="wireup-identity-") as place:
            with self.serve(Path(place)) as service:
                self.eventually(lambda: "serving softhca0" in service.output, "it is served")
                for kind, target, source in (
                    ("n", "elsewhere", "node1"),
                    ("i", "10.77.0.2", "10.77.0.1"),
                    # The first word of the node's description, which the SA tells.
                    ("n", "H2", "node1"),
                ):
                    with self.subTest(target=target):
                        out = self.path_to(kind, target, source)
                        self.assertRegex(out, rf"dlid: {self.lid('H2')}\n", out)
                        self.assertIn("SA verification: success", out)
                # Nobody knows this one.
                out = self.path_to("n", "node77", "node1")
                self.assertIn("Connection timed out", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
