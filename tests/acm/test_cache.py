# SPDX-License-Identifier: BSD-3-Clause
"""The node cache on a fabric: what makes its paths void, and whom its file is for."""
import os
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "softhca" / "management")]
from support import SOFTHCA, ManagementTest  # noqa: E402
from test_fabric import Client  # noqa: E402

#: Port GUID and partition in the names of H1's files.
H1_PORT = "5b00000000000101-7fff"


class CacheTest(ManagementTest):
    options = ("--hosts", 2)

    def client(self, host: str, *prefix: object) -> Client:
        # By multicast alone: a table from the SA would fill the cache again before one could look.
        client = Client(self.fabric, host, "WIREUP_SA_BULK=never", prefix=prefix)
        self.addCleanup(client.end)
        return client

    def resolve(self, client: Client, gid: str) -> "dict[str, str]":
        """Asks until there is a path: the subnet manager may be about to come or go."""

        def asked() -> bool:
            nonlocal answer
            answer = client.ask(f"resolve {gid} 5000")
            return answer.startswith("path ")

        answer = ""
        self.eventually(asked, f"a path to {gid}")
        return client.path(f"lookup {gid}")


class Invalidation(CacheTest):
    """Each time H1's cache holds the path to H2, then something happens."""

    def setUp(self) -> None:
        self.one, self.two = self.client("H1"), self.client("H2")
        self.there = self.two.gid
        self.resolve(self.one, self.there)

    def is_void(self) -> bool:
        return self.one.ask(f"lookup {self.there}") == "miss"

    def test_when_clients_are_to_register_again(self) -> None:
        self.fault("reregister", "H1")
        self.eventually(self.is_void, "the path is void")
        self.resolve(self.one, self.there)

    def test_when_the_table_of_pkeys_changes(self) -> None:
        self.fault("pkey", "H1", 5, "0x8123")
        self.addCleanup(self.fault, "pkey", "H1", 5, "0")
        self.eventually(self.is_void, "the path is void")
        self.resolve(self.one, self.there)

    def test_while_the_port_is_down(self) -> None:
        self.fault("link", "H1", "down")
        try:
            self.eventually(self.is_void, "no path leads out of a port that is down")
            answer = self.one.ask(f"resolve {self.there} 2000")
            self.assertRegex(answer, r"^failed \w+ .*softhca0 port 1")
            self.assertTrue(self.is_void())
        finally:
            self.fault("link", "H1", "up")
        self.resolve(self.one, self.there)

    def test_when_another_subnet_manager_is_there(self) -> None:
        self.assertEqual(self.sm("stop").status, 0)
        self.assertEqual(self.sm("start").status, 0)
        self.eventually(self.is_void, "the path is void")
        self.resolve(self.one, self.there)

    def change_lid(self, host: str) -> "tuple[str, str]":
        """The LID that the port had, and the one that it has now and keeps."""
        before = self.lid(host)
        after = max(lid for _, lid in self.ports().values()) + 20
        done = self.sm("lid", host, after)
        self.assertEqual(done.status, 0, done.all)
        self.eventually(lambda: self.lid(host) == after, f"{host} has LID {after}")
        return str(before), str(after)

    def is_free_of(self, field: str, old: str) -> bool:
        answer = self.one.ask(f"lookup {self.there}")
        return answer == "miss" or f" {field} {old} " not in answer

    def test_when_the_own_lid_changes(self) -> None:
        old, new = self.change_lid("H1")
        self.eventually(lambda: self.is_free_of("slid", old), "the old LID is out of use", 10)
        self.assertEqual(self.resolve(self.one, self.there)["slid"], new)
        # The peer hears of it from the port itself.
        here = self.one.gid

        def heard() -> bool:
            return f" dlid {new} " in self.two.ask(f"resolve {here} 5000")

        self.eventually(heard, "H2 sends to the new LID")

    def test_when_the_peers_lid_changes(self) -> None:
        old, new = self.change_lid("H2")
        self.eventually(lambda: self.is_free_of("dlid", old), "the old LID is out of use", 10)
        self.assertEqual(self.resolve(self.one, self.there)["dlid"], new)
        self.assertTrue(self.is_free_of("dlid", old))


def user(uid: int) -> "tuple[object, ...]":
    return ("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups")


@unittest.skipUnless(
    os.geteuid() == 0, "needs a second user on a fabric that was started without root"
)
class Users(CacheTest):
    """Ranks without privileges: those of a user share a cache, and nobody else gets at it."""

    OURS, OTHERS = user(1000), user(1001)

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        # The resolver of an ordinary user may join groups here.
        done = cls.fabric.run("H1", SOFTHCA, "fault", "umad", "open")
        assert done.status == 0, done.all

    def cache_of(self, uid: int) -> str:
        """The file of the resolver that runs now, or ran last."""
        out = self.run_on("H1", "sh", "-c", f"ls -t /dev/shm/wireup-{uid}-acm1-{H1_PORT}.*")
        return out.split()[0]

    def refuses(self, *command: object) -> None:
        done = self.fabric.run("H1", *command)
        self.assertNotEqual(done.status, 0, f"{command}: {done.all}")

    def test_ranks_of_a_user_share_a_cache_that_is_theirs_alone(self) -> None:
        peer = self.client("H2", *self.OURS)
        first, second = self.client("H1", *self.OURS), self.client("H1", *self.OURS)
        self.assertEqual((first.ask("resolver"), second.ask("resolver")), ("yes", "no"))
        path = self.resolve(first, peer.gid)
        self.assertEqual(second.path(f"resolve {peer.gid} 5000")["dlid"], path["dlid"])
        self.assertEqual(second.path(f"lookup {peer.gid}")["dlid"], path["dlid"])
        file = self.cache_of(1000)
        status = self.run_on("H1", "stat", "-c", "%u %a", file).split()
        self.assertEqual(status, ["1000", "600"])
        # Neither to read nor to write nor to replace.
        self.refuses(*self.OTHERS, "cat", file)
        self.refuses(*self.OTHERS, "sh", "-c", f"echo x >> {file}")
        self.refuses(*self.OTHERS, "rm", "-f", file)
        self.refuses(*self.OTHERS, "ln", "-sf", "/etc/passwd", file)
        # A rank of the other user finds nothing of it, and has a resolver of its own.
        other = self.client("H1", *self.OTHERS)
        self.assertEqual(other.ask(f"lookup {peer.gid}"), "miss")
        self.assertEqual(other.ask("resolver"), "yes")
        self.assertEqual(second.path(f"lookup {peer.gid}")["dlid"], path["dlid"])

    def test_files_that_are_not_to_be_trusted(self) -> None:
        """Who plants a file under the name of the cache gets no rank to read or to write it."""
        first = self.client("H1", *self.OURS)
        peer = self.client("H2", *self.OURS)
        self.resolve(first, peer.gid)
        file = self.cache_of(1000)
        first.end()
        good = f"{file}.good"
        self.run_on("H1", *self.OURS, "cp", "-p", file, good)
        self.addCleanup(self.run_on, "H1", "rm", "-f", good, file)
        foreign = f"{file}.foreign"
        self.run_on("H1", "install", "-m", "600", "-o", 1001, "-g", 1001, good, foreign)
        self.addCleanup(self.run_on, "H1", "rm", "-f", foreign)
        for what, plant, said in (
            ("another user's", f"cp -p {foreign} {file}", "Permission denied"),
            ("writable by a group", f"cp -p {good} {file} && chmod 660 {file}", "mode 660"),
            ("writable by all", f"cp -p {good} {file} && chmod 606 {file}", "mode 606"),
            ("a link to a good one", f"ln -s {good} {file}", f"opening {file}"),
            ("a pipe", f"mkfifo -m 600 {file} && chown 1000:1000 {file}", "not to be trusted"),
        ):
            with self.subTest(file=what):
                self.run_on("H1", "sh", "-c", f"rm -f {file} && {plant}")
                before = self.run_on("H1", "stat", "-c", "%i %u %a %Y", file)
                rank = self.client("H1", *self.OURS)
                self.assertEqual(rank.ask(f"lookup {peer.gid}"), "miss")
                answer = rank.ask(f"resolve {peer.gid} 5000")
                self.assertRegex(answer, r"^failed NoPermission ")
                self.assertIn(said, answer)
                self.assertEqual(self.run_on("H1", "stat", "-c", "%i %u %a %Y", file), before)
                # Once it is away, the same rank goes on.
                self.run_on("H1", "rm", "-f", file)
                self.resolve(rank, peer.gid)
                rank.end()


if __name__ == "__main__":
    unittest.main(verbosity=2)
