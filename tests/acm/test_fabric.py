# SPDX-License-Identifier: BSD-3-Clause
"""The node resolver and the node cache on a fabric: real joins at OpenSM, real multicasts."""
import re
import select
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from fabric import BUILD, TOOL, Fabric, bounded  # noqa: E402

CLIENT = BUILD / "tests" / "acm" / "acm_client"
PATH = re.compile(
    r"path (?P<origin>\S+) dgid (?P<dgid>\S+) dlid (?P<dlid>\d+) slid (?P<slid>\d+) "
    r"pkey (?P<pkey>\S+) sl (?P<sl>\d+) mtu (?P<mtu>\d+) rate (?P<rate>\d+) us (?P<us>\d+)"
)


class Client:
    """An acm_client on a host; one line out for each line in. `prefix` is put before it, such as
    setpriv with a user."""

    def __init__(
        self,
        fabric: Fabric,
        host: str,
        *environment: str,
        prefix: "tuple[object, ...]" = (),
        seconds: int = 120,
    ) -> None:
        words = ["timeout", "-k", "5", seconds, TOOL, "exec", "--name", fabric.name, host]
        self.process = subprocess.Popen(
            list(map(str, [*words, "--", *prefix, "env", *environment, CLIENT])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
        self.buffer = b""
        self.fabric = fabric
        self.host = host
        opened = self.line(30)
        if not opened.startswith("open "):
            raise AssertionError(f"acm_client on {host} said: {opened}")
        self.gid = opened.split()[1]
        self.pid = self.ask("pid")

    def line(self, seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"no line from {self.host} in {seconds} s: {self.buffer!r}")
            data = self.process.stdout.read(4096)
            if not data:
                raise AssertionError(f"acm_client on {self.host} ended: {self.buffer!r}")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\n", 1)
        # What the emulated adapter has to say, once a process, is no answer.
        return self.line(seconds) if text.startswith(b"softhca: ") else text.decode()

    def send(self, command: str) -> None:
        self.process.stdin.write(command.encode() + b"\n")

    def ask(self, command: str, seconds: float = 30) -> str:
        self.send(command)
        return self.line(seconds)

    def path(self, command: str, seconds: float = 30) -> "dict[str, str]":
        answer = self.ask(command, seconds)
        match = PATH.fullmatch(answer)
        if match is None:
            raise AssertionError(f"{command} on {self.host}: {answer}")
        return match.groupdict()

    def signal(self, name: str) -> None:
        done = self.fabric.run(self.host, "kill", f"-{name}", self.pid)
        if done.status != 0:
            raise AssertionError(done.all)

    def end(self) -> None:
        if self.process.poll() is None:
            try:
                self.send("quit")
                self.process.wait(10)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self.process.kill()
                self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class FabricCase(unittest.TestCase):
    """Multicast alone: the SA is asked for no path. (test_sa.py has what it is asked for.)"""

    fabric: Fabric
    environment: "tuple[str, ...]" = ("WIREUP_SA_BULK=never",)

    @classmethod
    def setUpClass(cls) -> None:
        cls.fabric = Fabric("--hosts", 2, name="acm")
        cls.fabric.__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def client(self, host: str) -> Client:
        client = Client(self.fabric, host, *self.environment)
        self.addCleanup(client.end)
        return client


class Resolving(FabricCase):
    def test_two_hosts_resolve_each_other(self) -> None:
        queries = self.stat("sa_path_queries")
        one, two = self.client("H1"), self.client("H2")
        there = one.path(f"resolve {two.gid} 10000")
        back = two.path(f"resolve {one.gid} 10000")
        self.assertEqual(there["origin"], "acm_multicast")
        self.assertEqual((there["dlid"], there["slid"]), (back["slid"], back["dlid"]))
        # What the node's cache holds now is there for every process of the node, at once.
        self.assertEqual(one.path(f"lookup {two.gid}")["dlid"], there["dlid"])
        neighbour = self.client("H1")
        self.assertEqual(neighbour.ask("resolver"), "no")
        self.assertEqual(neighbour.path(f"lookup {two.gid}")["dlid"], there["dlid"])
        self.assertEqual(neighbour.path(f"resolve {two.gid} 5000")["dlid"], there["dlid"])
        self.assertEqual(one.path(f"resolve {one.gid} 1000")["origin"], "local")
        self.assertEqual(self.stat("sa_path_queries"), queries)
        self.compare_with_the_sa(there)

    def test_a_demanded_sl_comes_from_the_sa(self) -> None:
        one, two = self.client("H1"), self.client("H2")
        two.path(f"resolve {one.gid} 10000")
        any_sl = one.path(f"resolve {two.gid} 10000")
        self.assertEqual((any_sl["origin"], any_sl["sl"]), ("acm_multicast", "0"))
        path = one.path(f"resolve {two.gid} 10000 3")
        self.assertEqual((path["origin"], path["sl"]), ("sa_query", "3"))
        self.assertEqual(path["dlid"], any_sl["dlid"])
        self.assertEqual(one.path(f"lookup {two.gid}")["sl"], "0")

    def compare_with_the_sa(self, path: "dict[str, str]") -> None:
        done = self.fabric.run(
            "H1", "saquery", "PR", "--slid", path["slid"], "--dlid", path["dlid"]
        )
        self.assertEqual(done.status, 0, done.all)

        def field(name: str) -> int:
            found = re.search(rf"{name}\.*(0x[0-9a-fA-F]+|\d+)", done.out, re.IGNORECASE)
            self.assertIsNotNone(found, f"{name} in\n{done.out}")
            return int(found.group(1), 0)

        self.assertEqual(int(path["mtu"]), field("mtu") & 0x3F)
        self.assertEqual(int(path["rate"]), field("rate") & 0x3F)
        self.assertEqual(int(path["sl"]), field("sl"))

    def stat(self, name: str) -> int:
        stats = self.fabric.stats()
        totals = stats.get("total", stats.get("totals", stats))
        return int(totals[name])

    def test_a_path_that_failed_is_forgotten(self) -> None:
        one, two = self.client("H1"), self.client("H2")
        one.path(f"resolve {two.gid} 10000")
        self.assertEqual(one.ask(f"fail {two.gid}"), "ok")
        deadline = time.monotonic() + 5
        while one.ask(f"lookup {two.gid}") != "miss":
            self.assertLess(time.monotonic(), deadline, "the failed path stays in the cache")
        one.path(f"resolve {two.gid} 10000")

    def test_a_port_that_does_not_exist(self) -> None:
        one = self.client("H1")
        start = time.monotonic()
        answer = one.ask("resolve fe80::dead 3000")
        self.assertRegex(answer, r"^failed PathUnresolved GID fe80:\S+dead .*softhca0 port 1")
        self.assertLess(time.monotonic() - start, 5)

    def test_with_loss_and_duplicates(self) -> None:
        self.fabric.fault("ud", "--drop", "20%", "--duplicate", "10%", "--seed", "1")
        self.addCleanup(self.fabric.fault, "clear")
        one, two = self.client("H1"), self.client("H2")
        one.send(f"resolve {two.gid} 15000")
        two.send(f"resolve {one.gid} 15000")
        self.assertRegex(one.line(20), "^path acm_multicast")
        self.assertRegex(two.line(20), "^path acm_multicast")


class TakingOver(FabricCase):
    def test_when_the_resolver_is_killed(self) -> None:
        peer = self.client("H2")
        first, second = self.client("H1"), self.client("H1")
        self.assertEqual((first.ask("resolver"), second.ask("resolver")), ("yes", "no"))
        path = second.path(f"resolve {peer.gid} 10000")
        # What is pending when it dies is asked again of its successor.
        second.send("resolve fe80::dead 6000")
        first.signal("KILL")
        self.assertRegex(second.line(15), "^failed PathUnresolved GID .*does not answer")
        self.assertEqual(second.ask("resolver"), "yes")
        self.assertEqual(second.path(f"lookup {peer.gid}")["dlid"], path["dlid"])
        self.assertEqual(second.path(f"resolve {peer.gid} 10000")["dlid"], path["dlid"])

    def test_when_the_resolver_leaves(self) -> None:
        peer = self.client("H2")
        first, second, third = (self.client("H1") for _ in range(3))
        self.assertEqual(first.ask("resolver"), "yes")
        path = third.path(f"resolve {peer.gid} 10000")
        first.end()
        self.assertEqual(third.path(f"resolve {peer.gid} 10000")["dlid"], path["dlid"])
        self.assertEqual(sorted((second.ask("resolver"), third.ask("resolver"))), ["no", "yes"])

    def test_when_the_resolver_is_stopped(self) -> None:
        peer = self.client("H2")
        first, second = self.client("H1"), self.client("H1")
        path = second.path(f"resolve {peer.gid} 10000")
        self.assertEqual(first.ask("resolver"), "yes")
        first.signal("STOP")
        # The others on the fabric must still find this node, though nobody here asks for anything.
        deadline = time.monotonic() + 15
        while second.ask("resolver") != "yes":
            self.assertLess(time.monotonic(), deadline, "nobody took over from a stopped resolver")
            time.sleep(0.2)
        self.assertEqual(second.path(f"resolve {peer.gid} 10000")["dlid"], path["dlid"])
        # It goes on, sees that it was replaced, and is a rank like the others.
        first.signal("CONT")
        self.assertEqual(first.path(f"resolve {peer.gid} 10000")["dlid"], path["dlid"])
        self.assertEqual((first.ask("resolver"), second.ask("resolver")), ("no", "yes"))


class WithoutSubnetManager(FabricCase):
    def test_joins_fail_with_that_reason(self) -> None:
        self.assertEqual(bounded([TOOL, "sm", "stop", "--name", self.fabric.name], 30).status, 0)
        one = self.client("H1")
        start = time.monotonic()
        answer = one.ask("resolve fe80::dead 30000", 40)
        self.assertRegex(answer, r"^failed NoSubnetManager .*softhca0 port 1.*SM LID")
        self.assertLess(time.monotonic() - start, 15)
        self.assertEqual(bounded([TOOL, "sm", "start", "--name", self.fabric.name], 60).status, 0)
        two = self.client("H2")
        deadline = time.monotonic() + 40
        while not one.ask(f"resolve {two.gid} 5000").startswith("path acm_multicast"):
            self.assertLess(time.monotonic(), deadline, "no path after the subnet manager's return")
            time.sleep(0.5)


if __name__ == "__main__":
    unittest.main()
