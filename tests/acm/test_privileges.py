# SPDX-License-Identifier: BSD-3-Clause
"""What `wireup serve` keeps of root's privileges, and that it works with that for good."""
import os
import unittest

from service_host import SOCKET, ServiceTest, as_user

#: Bits of those that the service may keep.
NEEDS = {"CAP_NET_ADMIN": 1 << 12, "CAP_NET_RAW": 1 << 13, "CAP_IPC_LOCK": 1 << 14}


@unittest.skipUnless(
    os.geteuid() == 0, "needs a second user on a fabric that was started without root"
)
class Privileges(ServiceTest):
    options = ("--hosts", 2)

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        # As kernels since 2023: ACM's Q_Key is for those with CAP_NET_RAW.
        cls.fabric.fault("qkeys", "restricted")

    def check(self, said: str, uid: int) -> None:
        """It has what it says that it kept, and nothing else."""
        status = self.status_of_service("H1")
        kept = sum(bit for name, bit in NEEDS.items() if f"kept {name}: " in said)
        self.assertIn("kept CAP_NET_RAW: ", said)
        self.assertEqual((int(status["CapPrm"], 16), int(status["CapEff"], 16)), (kept, kept))
        for name in ("CapInh", "CapAmb", "CapBnd"):
            self.assertEqual(int(status[name], 16), 0, name)
        self.assertEqual(status["NoNewPrivs"].strip(), "1")
        self.assertEqual(status["Uid"].split(), [str(uid)] * 4)

    def resolves(self) -> bool:
        words = ("ib_acme", "-f", "l", "-s", self.lid("H1"), "-d", self.lid("H2"), "-S", SOCKET)
        return f"dlid: {self.lid('H2')}\n" in self.fabric.run("H1", *words, seconds=20).out

    def goes_down_and_comes_back(self) -> None:
        """Its link, and then its P_Key table, for which the queue pair is made anew."""
        self.fault("link", "H1", "down")
        self.eventually(lambda: self.ports()["H1"][0] != "ACTIVE", "the port is down")
        self.fault("link", "H1", "up")
        self.eventually(lambda: self.ports()["H1"][0] == "ACTIVE", "the port is back")
        self.eventually(self.resolves, "a path after the port's return")
        self.fault("pkey", "H1", 3, "0x8123")
        peer, rank = self.rank("H2"), self.rank("H1")
        self.fabric.run("H1", "sleep", "1")
        rank.ask(f"fail {self.gid('H2')}")
        self.assertEqual(rank.path(f"resolve {self.gid('H2')} 20000")["dlid"], str(self.lid("H2")))
        self.assertEqual(rank.ask("resolver"), "no")
        peer.end()

    def test_what_root_keeps(self) -> None:
        with self.serve("H1") as service, self.serve("H2") as other:
            self.wait_until_served("H1", service)
            self.wait_until_served("H2", other)
            self.check(service.output, 0)
            self.goes_down_and_comes_back()
            self.check(service.output, 0)


class Others(Privileges):
    """Other users, and less to begin with."""

    test_what_root_keeps = None

    def test_another_user(self) -> None:
        with self.serve("H1", "--user", "nobody") as service, self.serve("H2") as other:
            self.eventually(lambda: "running as user nobody" in service.output, service.output)
            self.wait_until_served("H2", other)
            self.check(service.output, 65534)
            # Ranks believe root's files only: these were made before.
            rank = self.rank("H1", *as_user(1000))
            path = rank.path(f"resolve {self.gid('H2')} 20000")
            self.assertEqual((path["origin"], rank.ask("resolver")), ("sa_query", "no"))
            self.goes_down_and_comes_back()
        # What it could not remove any more is no obstacle to the next.
        with self.serve("H1") as service:
            self.wait_until_served("H1", service)

    def test_started_with_less(self) -> None:
        bounded = ("setpriv", "--bounding-set", "-all,+net_raw", "--inh-caps", "-all")
        with self.serve("H1", prefix=bounded) as service:
            self.wait_until_served("H1", service)
            self.assertTrue(self.resolves(), service.output)
        with self.serve("H1", prefix=as_user(1000)) as service:
            # It may not make the socket; it says so and ends, and gives no one's away.
            self.eventually(service.ended, service.output)
            self.assertIn("/run/ibacm-unix.sock", service.output)
        own = ("--socket", "/run/tmp/own.sock")
        with self.serve("H1", *own, prefix=as_user(1000)) as service:
            self.eventually(lambda: "started without CAP_NET_RAW" in service.output, service.output)
            # At first the one before it may still seem to be there.
            self.eventually(
                lambda: "CAP_NET_RAW" in service.output.partition("not serving softhca0")[2],
                service.output,
            )

    def test_users_that_it_cannot_become(self) -> None:
        done = self.fabric.run("H1", self.serve_command(), "serve", "--user", "no-such-user")
        self.assertEqual(done.status, 1)
        self.assertIn("there is no user no-such-user", done.all)
        done = self.fabric.run("H1", *as_user(1000), self.serve_command(), "serve", "--user", "root")
        self.assertEqual(done.status, 1)
        self.assertIn("needs CAP_SETGID, CAP_SETUID", done.all)

    @staticmethod
    def serve_command() -> object:
        from service_host import WIREUP

        return WIREUP


if __name__ == "__main__":
    unittest.main(verbosity=2)
