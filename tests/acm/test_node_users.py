# SPDX-License-Identifier: BSD-3-Clause
"""root's service as the resolver of every user's ranks: what they get of it, and what they cannot do
to it."""
import os
import unittest

from service_host import SOCKET, Background, ServiceTest, as_user

PUBLIC = "/run/wireup"
#: Everything that a user may try with the files: each line that it prints is something that worked.
MEDDLE = r"""
import fcntl, glob, os, socket, struct

def attempt(name, action):
    try:
        action()
        print("worked:", name)
    except OSError:
        pass

def lock(path, kind):
    with open(path, "rb") as file:
        data = struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(file.fileno(), 37, data)  # F_OFD_SETLK

def bind(path):
    socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(path)

here = "/run/wireup"
files = glob.glob(here + "/*")
print("files:", len(files))
attempt("a new file", lambda: open(here + "/new", "w"))
attempt("a socket", lambda: bind(here + "/new.sock"))
attempt("another directory in its place", lambda: os.rename(here, "/run/gone"))
for path in files:
    attempt("writing " + path, lambda: open(path, "r+b"))
    attempt("cutting " + path, lambda: os.truncate(path, 0))
    attempt("removing " + path, lambda: os.remove(path))
    attempt("renaming " + path, lambda: os.rename(path, path + ".old"))
    attempt("rights of " + path, lambda: os.chmod(path, 0o666))
    attempt("taking the lock of " + path, lambda: lock(path, fcntl.F_WRLCK))
for path in glob.glob(here + "/*.owner"):
    attempt("a reader's lock of " + path, lambda: lock(path, fcntl.F_RDLCK))
"""
#: Opens as many connections to a socket as it can, and says how many were not closed at once.
CROWD = r"""
import select, socket, sys, time
kind = {"stream": socket.SOCK_STREAM, "packets": socket.SOCK_SEQPACKET}[sys.argv[2]]
held = []
for number in range(1000):
    client = socket.socket(socket.AF_UNIX, kind)
    client.connect(sys.argv[1])  # waits where the queue is full
    held.append(client)
end = time.monotonic() + 20
while time.monotonic() < end:
    closed = select.select(held, [], [], 1)[0]
    if not closed:
        break
    held = [client for client in held if client not in closed]
print("held", len(held), flush=True)
time.sleep(60)
"""


@unittest.skipUnless(
    os.geteuid() == 0, "needs a second user on a fabric that was started without root"
)
class Ranks(ServiceTest):
    options = ("--hosts", 2)
    peer = "H2"

    def tearDown(self) -> None:
        self.fault("umad", "restricted")

    def start(self, host: str) -> Background:
        service = self.serve(host)
        self.addCleanup(service.__exit__)
        self.wait_until_served(host, service)
        return service

    def public_file(self, ending: str) -> str:
        return self.run_on("H1", "sh", "-c", f"echo {PUBLIC}/*{ending}").strip()

    def test_every_user_asks_the_one_service(self) -> None:
        self.start("H1")
        there = self.gid("H2")
        for prefix in (as_user(1000), as_user(1001), ()):
            rank = self.rank("H1", *prefix)
            path = rank.path(f"resolve {there} 20000")
            self.assertEqual((path["dlid"], path["origin"]), (str(self.lid("H2")), "sa_query"))
            self.assertEqual(rank.ask("resolver"), "no")
            # A hit: read from the service's cache.
            self.assertEqual(rank.path(f"lookup {there}")["dlid"], path["dlid"])
        # A new process of another user finds what the others have asked for, without asking.
        self.assertEqual(
            self.rank("H1", *as_user(1002)).path(f"lookup {there}")["dlid"], path["dlid"]
        )

    def test_users_cannot_meddle(self) -> None:
        service = self.start("H1")
        rank = self.rank("H1", *as_user(1001))
        path = rank.path(f"resolve {self.gid('H2')} 20000")
        said = self.run_on("H1", *as_user(1000), "/usr/bin/python3", "-c", MEDDLE).splitlines()
        self.assertRegex(said[0], r"files: [4-9]")
        self.assertEqual(said[1:], [])
        # Who may read the state may lock it for reading: that keeps nobody out.
        holder = Background(
            self.fabric, "H1", *as_user(1000), "flock", "--shared", self.public_file(".lock"),
            "sleep", 60,
        )
        self.addCleanup(holder.__exit__)
        self.assertEqual(rank.path(f"resolve {self.gid('H2')} 20000")["dlid"], path["dlid"])
        service.__exit__()
        again = self.start("H1")
        self.assertFalse(again.ended(), again.output)
        self.assertEqual(rank.path(f"resolve {self.gid('H2')} 20000")["dlid"], path["dlid"])


class Changes(Ranks):
    """The service ends, dies, stops, comes back."""

    test_every_user_asks_the_one_service = None
    test_users_cannot_meddle = None

    def test_without_the_service_ranks_elect_their_own_and_go_back(self) -> None:
        self.fault("umad", "open")
        rank = self.rank("H1", *as_user(1000))
        there = self.gid("H2")
        self.assertIn(
            rank.path(f"resolve {there} 20000")["origin"], ("acm_multicast", "sa_query")
        )
        self.assertEqual(rank.ask("resolver"), "yes")
        for signal in ("KILL", "TERM"):
            service = self.start("H1")
            self.eventually(lambda: rank.ask("resolver") == "no", "the rank steps down")
            rank.ask(f"fail {there}")
            self.assertEqual(rank.path(f"resolve {there} 20000")["origin"], "sa_query")
            self.run_on("H1", "kill", f"-{signal}", self.pid_of_service("H1"))
            self.eventually(service.ended, "the service has ended")
            self.eventually(lambda: rank.ask("resolver") == "yes", "the rank takes over")
            self.assertEqual(rank.path(f"resolve {there} 20000")["dlid"], str(self.lid("H2")))

    def test_a_service_that_is_stopped_is_left_and_found_again(self) -> None:
        self.fault("umad", "open")
        self.start("H1")
        rank = self.rank("H1", *as_user(1000))
        self.assertEqual(rank.ask("resolver"), "no")
        pid = self.pid_of_service("H1")
        self.run_on("H1", "kill", "-STOP", pid)
        try:
            self.eventually(lambda: rank.ask("resolver") == "yes", "the rank takes over")
        finally:
            self.run_on("H1", "kill", "-CONT", pid)
        self.eventually(lambda: rank.ask("resolver") == "no", "the service is back")
        self.assertEqual(
            rank.path(f"resolve {self.gid('H2')} 20000")["dlid"], str(self.lid("H2"))
        )

    def test_what_a_user_puts_in_its_place_is_not_believed(self) -> None:
        """Without root's help there is no such place; here root gives it away."""
        self.fault("umad", "open")
        service = self.start("H1")
        service.__exit__()
        self.run_on("H1", "chown", "-R", "1000:1000", PUBLIC)
        # A service of that user's, in his own directory, whatever stands there.
        try:
            rank = self.rank("H1", *as_user(1001))
            self.assertEqual(rank.ask("resolver"), "yes")
        finally:
            self.run_on("H1", "rm", "-rf", PUBLIC)


@unittest.skipUnless(
    os.geteuid() == 0, "needs a second user on a fabric that was started without root"
)
class Limits(ServiceTest):
    """A service of few descriptors: 128 clients and 128 ranks each user."""

    options = ("--hosts", 2)
    peer = "H2"

    def test_one_users_thousand_lock_nobody_out(self) -> None:
        few = ("prlimit", "--nofile=1024:1024")
        with self.serve("H1", prefix=few) as service:
            self.wait_until_served("H1", service)
            ranks_socket = self.run_on("H1", "sh", "-c", "echo /run/wireup/*.sock").strip()
            for path, kind in ((SOCKET, "stream"), (ranks_socket, "packets")):
                crowd = Background(
                    self.fabric, "H1", "prlimit", "--nofile=2048:2048", *as_user(1000), "/usr/bin/python3",
                    "-c", CROWD, path, kind,
                )
                self.addCleanup(crowd.__exit__)
                self.eventually(
                    lambda c=crowd: "held" in c.output or c.ended(), "the crowd has connected"
                )
                self.assertEqual(crowd.output.split(), ["held", "128"], f"{path}: {crowd.output}")
            for prefix in (as_user(1001), ()):
                done = self.fabric.run(
                    "H1", *prefix, "ib_acme", "-f", "l", "-s", self.lid("H1"), "-d",
                    self.lid("H2"), "-S", SOCKET, seconds=30,
                )
                self.assertRegex(done.out, rf"dlid: {self.lid('H2')}\n", done.all)
                rank = self.rank("H1", *prefix)
                path = rank.path(f"resolve {self.gid('H2')} 20000")
                self.assertEqual(path["origin"], "sa_query")
            # The crowd's own user is told, and its other processes go on without the service.
            late = self.rank("H1", *as_user(1000))
            self.assertRegex(
                late.ask(f"resolve {self.gid('H2')} 1500"), "^failed PathUnresolved .*more processes"
            )


if __name__ == "__main__":
    unittest.main(verbosity=2)
