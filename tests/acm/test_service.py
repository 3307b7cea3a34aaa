# SPDX-License-Identifier: BSD-3-Clause
"""`wireup serve` beside a real ibacm: on the wire with it, in its place for its clients, and for the
node's ranks."""
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "softhca" / "management")]
from fabric import BUILD  # noqa: E402
from support import SOFTHCA, Background, ManagementTest  # noqa: E402
from test_acm import OPTIONS, SOCKET  # noqa: E402
from test_fabric import Client  # noqa: E402

WIREUP = BUILD / "tools" / "wireup"
LOOKUP = BUILD / "tests" / "softhca" / "rdma_lookup"
IBACM, OURS, OTHER = "H1", "H2", "H3"
# As a service manager does it: the socket is there first, and passed as descriptor 3.
ACTIVATE = """\
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(64)
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""
# 200 queries of the counters by one write; prints the transaction ids of the answers.
PIPELINED = """\
import socket, struct, sys
service = socket.socket(socket.AF_UNIX)
service.settimeout(20)
service.connect(sys.argv[1])
service.sendall(b"".join(struct.pack(">BBBBBBHQ", 1, 2, 0, 0, 0, 0, 16, tid) for tid in range(1, 201)))
got = b""
while len(got) < 200 * 72:
    part = service.recv(65536)
    assert part, "disconnected"
    got += part
print(*(struct.unpack(">Q", got[at + 8:at + 16])[0] for at in range(0, len(got), 72)))
"""


class Services(ManagementTest):
    """ibacm on H1, wireup on H2 and H3. Host N is nodeN and 10.77.0.N."""

    options = ("--hosts", 3)

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.place = Path(tempfile.mkdtemp(prefix="wireup-service-"))
        cls.daemons = {host: cls.start(host) for host in (IBACM, OURS, OTHER)}

    @classmethod
    def start(cls, host: str) -> Background:
        number = host[1:]
        options = cls.place / f"options{number}"
        addresses = cls.place / f"addresses{number}"
        options.write_text(OPTIONS.format(log=cls.place / f"log{number}"))
        addresses.write_text(
            f"node{number} softhca0 1 default\n10.77.0.{number} softhca0 1 default\n"
        )
        if host == IBACM:
            command = ["ibacm", "-P", "-O", options, "-A", addresses]
        else:
            command = [WIREUP, "serve", "--options", options, "--addresses", addresses]
        return Background(cls.fabric, host, *command, seconds=400)

    @classmethod
    def tearDownClass(cls) -> None:
        for daemon in cls.daemons.values():
            daemon.__exit__()
        super().tearDownClass()
        shutil.rmtree(cls.place)

    def setUp(self) -> None:
        for host in self.daemons:
            self.eventually(
                lambda h=host: self.fabric.run(h, "test", "-S", SOCKET).status == 0,
                f"a service listens on {host}: {self.daemons[host].output}",
            )
        # ibacm asks a few times and never again, so nobody is asked before all have joined.
        self.eventually(self.joined, "all daemons are members of the ACM group")

    def joined(self) -> bool:
        """Every leaf switch forwards a multicast group."""
        switches = self.run_on(IBACM, SOFTHCA, "ports").partition("\n\n")[2].splitlines()[1:]
        groups = {words[0]: int(words[-1]) for words in map(str.split, switches)}
        leaves = [count for name, count in groups.items() if name.startswith("leaf")]
        return len(leaves) > 1 and min(leaves) > 0


class Service(Services):
    def gid(self, host: str) -> str:
        return f"fe80::5b00:0:0:{host[1:]}01"

    def resolves(self, here: str, there: str, kind: str, target: object, *source: object) -> None:
        """ib_acme on `here` gets the path to `there`, and the SA confirms every field of it."""

        def resolved() -> bool:
            nonlocal done
            done = self.fabric.run(
                here, "ib_acme", "-f", kind, *source, "-d", target, "-v", "-S", SOCKET, seconds=40
            )
            return done.status == 0 and "SA verification: success" in done.out

        done = None
        self.eventually(resolved, f"{target} is resolved on {here}")
        self.assertRegex(done.out, rf"dlid: {self.lid(there)}\n\s*slid: {self.lid(here)}\n")
        self.assertRegex(done.out, rf"dgid: {self.gid(there)}\n\s*sgid: {self.gid(here)}\n")

    def test_ibacm_resolves_us_and_we_resolve_ibacm(self) -> None:
        for kind, name in (("n", "node{}"), ("i", "10.77.0.{}")):
            for here, there in ((IBACM, OURS), (OURS, IBACM), (OTHER, IBACM), (OURS, OTHER)):
                with self.subTest(kind=kind, here=here, there=there):
                    source = ("-s", name.format(here[1:]))
                    self.resolves(here, there, kind, name.format(there[1:]), *source)

    def test_gids_lids_and_a_source_that_we_choose(self) -> None:
        self.resolves(OURS, IBACM, "g", self.gid(IBACM), "-s", self.gid(OURS))
        self.resolves(OURS, IBACM, "l", self.lid(IBACM), "-s", self.lid(OURS))
        self.resolves(OURS, IBACM, "i", "10.77.0.1")
        self.resolves(OURS, OURS, "n", "node2", "-s", "node2")

    def test_librdmacm_gets_its_route_from_our_socket(self) -> None:
        self.resolves(OURS, IBACM, "i", "10.77.0.1", "-s", "10.77.0.2")
        out = self.run_on(OURS, LOOKUP, "10.77.0.2", "10.77.0.1")
        self.assertEqual(out, f"slid {self.lid(OURS)} dlid {self.lid(IBACM)}\n")

    def test_requests_that_come_at_once_are_answered_in_order(self) -> None:
        """ibacm would disconnect who sends the next request before it has its answer."""
        out = self.run_on(OURS, "python3", "-c", PIPELINED, SOCKET)
        self.assertEqual(out.split(), [str(tid) for tid in range(1, 201)])

    def counters(self, host: str) -> "dict[str, int]":
        out = self.run_on(host, "ib_acme", "-P", "-S", SOCKET).splitlines()
        return dict(zip(out[0].split(",")[1:], map(int, out[1].split(",")[1:])))

    def test_counters_and_endpoints_as_ib_acme_prints_them(self) -> None:
        before = self.counters(OURS)
        self.resolves(OURS, OTHER, "n", "node3", "-s", "node2")
        after = self.counters(OURS)
        self.assertEqual(list(after), list(self.counters(IBACM)))
        # One for the question and one for its verification.
        self.assertGreaterEqual(after["Resolve Count"], before["Resolve Count"] + 2)
        self.assertGreater(after["Route Query Count"], before["Route Query Count"])
        endpoints = self.run_on(OURS, "ib_acme", "-e", "-S", SOCKET).splitlines()
        self.assertEqual(
            endpoints[1],
            f"{SOCKET},0x5b00000000000200,1,0xffff,1,wireup,node2,10.77.0.2",
        )

    def test_an_unknown_name_and_a_foreign_source_are_refused(self) -> None:
        done = self.fabric.run(
            OURS, "ib_acme", "-f", "n", "-s", "node2", "-d", "node77", "-S", SOCKET, seconds=40
        )
        self.assertIn("Connection timed out", done.all)
        done = self.fabric.run(
            OURS, "ib_acme", "-f", "n", "-s", "node1", "-d", "node3", "-S", SOCKET, seconds=40
        )
        self.assertIn("Cannot assign requested address", done.all)

    def test_a_second_service_leaves_the_first_alone(self) -> None:
        for host in (OURS, IBACM):
            done = self.fabric.run(host, WIREUP, "serve", seconds=20)
            self.assertEqual(done.status, 1, done.all)
            self.assertIn("stop it (is it ibacm?)", done.all)
        self.resolves(OURS, OTHER, "n", "node3", "-s", "node2")
        self.resolves(IBACM, OTHER, "n", "node3", "-s", "node1")

    def test_the_nodes_ranks_ask_the_service(self) -> None:
        rank = Client(self.fabric, OURS)
        try:
            path = rank.path(f"resolve {self.gid(IBACM)} 20000")
            self.assertEqual(path["dlid"], str(self.lid(IBACM)))
            self.assertEqual(path["origin"], "sa_query")
            self.assertEqual(rank.ask("resolver"), "no")
            self.assertEqual(rank.path(f"lookup {self.gid(IBACM)}")["dlid"], path["dlid"])
            for address in ("node3", "10.77.0.3"):
                self.assertEqual(
                    rank.path(f"address {address} 20000")["dlid"], str(self.lid(OTHER))
                )
            # What a name taught is known by its GID as well.
            self.assertEqual(
                rank.path(f"lookup {self.gid(OTHER)}")["dlid"], str(self.lid(OTHER))
            )
            self.assertIn("node77", rank.ask("address node77 3000"))
        finally:
            rank.end()


class Life(ManagementTest):
    """How a service starts and ends, beside ranks and under a service manager."""

    options = ("--hosts", 2)

    @staticmethod
    def command() -> "list[object]":
        return [WIREUP, "serve"]

    def serve(self) -> Background:
        return Background(self.fabric, "H1", *self.command(), seconds=120)

    def test_a_socket_that_is_passed(self) -> None:
        path = "/run/passed.sock"
        command = ["python3", "-c", ACTIVATE, path, WIREUP, "serve"]
        with Background(self.fabric, "H1", *command) as service:

            def endpoint() -> str:
                return self.fabric.run("H1", "ib_acme", "-e", "-S", path).out

            # Without an address file the port has the host's name.
            self.eventually(lambda: ",wireup,H1,H1-1" in endpoint(), service.output)
        # Its name is the service manager's.
        self.assertEqual(self.fabric.run("H1", "test", "-S", path).status, 0)

    def test_no_lasting_trace_of_a_socket_of_its_own(self) -> None:
        with self.serve() as service:
            self.eventually(
                lambda: self.fabric.run("H1", "test", "-S", SOCKET).status == 0, service.output
            )
        self.assertNotEqual(self.fabric.run("H1", "test", "-e", SOCKET).status, 0)

    def test_a_signal_ends_a_service_that_waits_for_a_port(self) -> None:
        # It looks for one every five seconds; the signal must not wait for that.
        words = f"{WIREUP} serve & sleep 1; kill -TERM $!; timeout 3 tail --pid=$! -f /dev/null"
        done = self.fabric.run("H1", "env", "SOFTHCA_DIR=/none", "sh", "-c", f"{words} && wait $!")
        self.assertEqual(done.status, 0, done.all)
        self.assertIn("waiting for one", done.all)
        self.assertIn("ending", done.all)

    def test_from_a_rank_and_back(self) -> None:
        there = "fe80::5b00:0:0:201"
        rank, peer = Client(self.fabric, "H1"), Client(self.fabric, "H2")
        try:
            peer.path("resolve fe80::5b00:0:0:101 20000")
            rank.path(f"resolve {there} 20000")
            self.assertEqual(rank.ask("resolver"), "yes")
            with self.serve() as service:
                self.eventually(lambda: rank.ask("resolver") == "no", service.output)
                rank.ask(f"fail {there}")
                self.assertEqual(rank.path(f"resolve {there} 20000")["dlid"], str(self.lid("H2")))
            # It has gone: the rank is the resolver again, and goes on.
            rank.ask(f"fail {there}")
            self.assertEqual(rank.path(f"resolve {there} 20000")["dlid"], str(self.lid("H2")))
            self.eventually(lambda: rank.ask("resolver") == "yes", "the rank takes over")
        finally:
            rank.end()
            peer.end()


class PreloadedFiles(ManagementTest):
    """A service on H1 that has paths and names from files."""

    options = ("--hosts", 2)

    def write_files(self, place: Path, own_lid: int) -> "list[object]":
        there = self.lid("H2")
        (place / "routes").write_text(
            f'Channel Adapter 0x5b00000000000101, base LID {own_lid}, "H1 HCA-1", port 1\n'
            "# LID  : SL : MTU : RATE\n"
            f"0x{own_lid:04x} : 0  : 4   : 16\n"
            f"0x{there:04x} : 5  : 4   : 16\n"
            "\n"
            f'Channel Adapter 0x5b00000000000201, base LID {there}, "H2 HCA-1", port 1\n'
            "# LID  : SL : MTU : RATE\n"
            f"0x{own_lid:04x} : 6  : 4   : 16\n"
        )
        (place / "hosts").write_text("node2 fe80::5b00:0:0:201\n10.77.0.2 fe80::5b00:0:0:201\n")
        (place / "options").write_text(
            f"route_preload full_opensm_v1\nroute_data_file {place}/routes\n"
            f"addr_preload acm_hosts\naddr_data_file {place}/hosts\nsupport_ips_in_addr_cfg 1\n"
        )
        (place / "addresses").write_text(
            "node1 softhca0 1 default\n10.77.0.1 softhca0 1 default\n"
        )
        files = ["--options", place / "options", "--addresses", place / "addresses"]
        return [WIREUP, "serve", *files]

    def path_to(self, kind: str, target: object, source: object) -> str:
        words = ("ib_acme", "-f", kind, "-s", source, "-d", target, "-S", SOCKET)
        return self.fabric.run("H1", *words, seconds=40).out

    def wait_for_service(self, service: Background) -> None:
        self.eventually(lambda: "serving softhca0" in service.output, "the port is served")


class Preloaded(PreloadedFiles):
    """Nobody is asked, not even the SA, and the peer runs no ACM."""

    def test_all_kinds_of_addresses(self) -> None:
        with tempfile.TemporaryDirectory(prefix="wireup-preload-") as place:
            command = self.write_files(Path(place), self.lid("H1"))
            with Background(self.fabric, "H1", *command) as service:
                self.wait_for_service(service)
                before = self.fabric.stats()["total"]
                for kind, target, source in (
                    ("n", "node2", "node1"),
                    ("i", "10.77.0.2", "10.77.0.1"),
                    ("g", "fe80::5b00:0:0:201", "fe80::5b00:0:0:101"),
                    ("l", self.lid("H2"), self.lid("H1")),
                ):
                    out = self.path_to(kind, target, source)
                    self.assertRegex(out, rf"dlid: {self.lid('H2')}\n", out)
                    # The SL is the file's: this fabric's own paths have SL 0.
                    self.assertRegex(out, r"sl: 5\n", out)
                after = self.fabric.stats()["total"]
                self.assertEqual(after["sa_path_queries"], before["sa_path_queries"])
                rank = Client(self.fabric, "H1")
                try:
                    path = rank.path("resolve fe80::5b00:0:0:201 20000")
                    self.assertEqual((path["origin"], path["sl"]), ("preloaded", "5"))
                finally:
                    rank.end()

    def test_a_dump_of_another_lid_is_not_used(self) -> None:
        with tempfile.TemporaryDirectory(prefix="wireup-preload-") as place:
            command = self.write_files(Path(place), self.lid("H1") + 100)
            with Background(self.fabric, "H1", *command) as service:
                self.wait_for_service(service)
                self.eventually(lambda: "routes" in service.output, "the stale dump is reported")
                out = self.path_to("l", self.lid("H2"), self.lid("H1"))
                self.assertRegex(out, r"sl: 0\n", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
