# SPDX-License-Identifier: BSD-3-Clause
"""What the SA gives beyond single paths: all paths at once, notices; and how little it is asked."""
import sys
import time
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "softhca" / "management")]
from support import ManagementTest  # noqa: E402
from test_fabric import Client  # noqa: E402


def gid(host: str) -> str:
    return f"fe80::5b00:0:0:{host[1:]}01"


class SaTest(ManagementTest):
    def client(self, host: str, *environment: str, seconds: int = 120) -> Client:
        client = Client(self.fabric, host, *environment, seconds=seconds)
        self.addCleanup(client.end)
        return client

    def path_queries(self) -> int:
        return self.fabric.stats()["total"]["sa_path_queries"]


class Bulk(SaTest):
    """Nothing of ours runs on H2 to H4: all that is known of them is the SA's."""

    options = ("--hosts", 4)

    def test_at_most_two_requests_a_node_however_many_ranks_ask(self) -> None:
        before = self.path_queries()
        ranks = [self.client("H1") for _ in range(4)]
        for rank in ranks:
            for host in ("H2", "H3", "H4"):
                rank.send(f"resolve {gid(host)} 20000")
        for rank in ranks:
            for host in ("H2", "H3", "H4"):
                line = rank.line(30)
                self.assertRegex(line, rf"^path sa_query dgid \S+ dlid {self.lid(host)} ")
        for rank in ranks:
            self.assertRegex(rank.ask(f"lookup {gid('H3')}"), "^path sa_query ")
        self.assertLessEqual(self.path_queries() - before, 2)

    def test_a_single_one_is_asked_for_what_failed(self) -> None:
        """Where the table's word counts a path that failed is asked for again, alone."""
        rank = self.client("H2", "WIREUP_SA_BULK=always")
        rank.path(f"resolve {gid('H1')} 20000")
        before = self.path_queries()
        self.assertEqual(rank.ask(f"fail {gid('H1')}"), "ok")
        self.eventually(lambda: rank.ask(f"lookup {gid('H1')}") == "miss", "it is forgotten", 5)
        self.assertEqual(rank.path(f"resolve {gid('H1')} 20000")["dlid"], str(self.lid("H1")))
        self.assertEqual(self.path_queries() - before, 1)

    def test_never_means_never(self) -> None:
        rank = self.client("H3", "WIREUP_SA_BULK=never")
        rank.ask(f"resolve {gid('H4')} 5000")
        # Whatever became of that one: nothing is known of ports that nobody asked for.
        self.assertEqual(rank.ask(f"lookup {gid('H2')}"), "miss")
        self.assertEqual(rank.ask(f"lookup {gid('H1')}"), "miss")


class Notices(SaTest):
    """A path goes with its port and comes back with it, though nobody there says a word."""

    options = ("--hosts", 3)

    def test_a_port_that_leaves_and_comes_back(self) -> None:
        rank = self.client("H1", "WIREUP_SA_BULK=auto", seconds=200)
        there = gid("H3")
        rank.path(f"resolve {there} 20000")
        self.eventually(
            lambda: self.run_on("H1", "saquery", "IIR").count("InformInfoRecord dump") >= 4,
            "the node subscribes to notices",
        )
        self.fault("link", "H3", "down")
        self.eventually(lambda: rank.ask(f"lookup {there}") == "miss", "its path is forgotten")
        self.fault("link", "H3", "up")
        # Nobody asks: a lookup does not.
        self.eventually(
            lambda: rank.ask(f"lookup {there}").startswith("path "), "its path comes back"
        )
        self.assertEqual(rank.path(f"lookup {there}")["dlid"], str(self.lid("H3")))

    def test_after_a_lasting_lid_change_the_old_lid_is_gone_within_two_seconds(self) -> None:
        rank = self.client("H1", "WIREUP_SA_BULK=auto", seconds=200)
        there = gid("H2")
        old = rank.path(f"resolve {there} 20000")["dlid"]
        done = self.sm("lid", "H2", 77)
        self.assertEqual(done.status, 0, done.all)
        self.eventually(lambda: self.lid("H2") == 77, "the port has its new LID")
        changed = time.monotonic()
        while time.monotonic() < changed + 8:
            asked = time.monotonic()
            answer = rank.ask(f"lookup {there}")
            if f" dlid {old} " in answer:
                self.assertLess(asked, changed + 2, answer)
            time.sleep(0.05)
        self.assertEqual(rank.path(f"resolve {there} 20000")["dlid"], "77")
        self.assertEqual(rank.path(f"lookup {there}")["dlid"], "77")


class Stalled(SaTest):
    """OpenSM is stopped for 30 s while every node asks: it only delays."""

    options = ("--hosts", 4)

    def signal_opensm(self, name: str) -> None:
        # (The fabric has a PID namespace of its own.)
        pid = self.run_on("H1", "pgrep", "-x", "opensm").strip()
        self.run_on("H1", "kill", f"-{name}", pid)

    def test_thirty_seconds_of_silence_only_delay(self) -> None:
        # The SA is the only source: multicast paths are not used, and their peers are silent.
        clients = {
            host: self.client(host, "WIREUP_SA_BULK=always", seconds=240)
            for host in ("H1", "H2", "H3", "H4")
        }
        for host, client in clients.items():
            other = "H2" if host == "H1" else "H1"
            client.path(f"resolve {gid(other)} 20000")
        pairs = [(a, b) for a in clients for b in clients if a != b]
        self.signal_opensm("STOP")
        try:
            before = self.path_queries()
            for here, there in pairs:
                self.assertEqual(clients[here].ask(f"fail {gid(there)}"), "ok")
            for here, there in pairs:
                clients[here].send(f"resolve {gid(there)} 120000")
            time.sleep(30)
        finally:
            self.signal_opensm("CONT")
        # They come in any order.
        for here, client in clients.items():
            answers = [client.line(90) for _ in range(3)]
            for there in clients:
                found = [line for line in answers if f" dlid {self.lid(there)} " in line]
                self.assertEqual(len(found), 0 if there == here else 1, answers)
            self.assertTrue(all(line.startswith("path sa_query ") for line in answers), answers)
        # Each of the twelve questions doubled its waits, at most eight seconds long.
        self.assertLessEqual(self.path_queries() - before, len(pairs) * 9)


if __name__ == "__main__":
    unittest.main(verbosity=2)
