# SPDX-License-Identifier: BSD-3-Clause
"""Longer use of ibacm and wireup on one fabric: what it costs the SA, and that neither disturbs the
other. (An hour of it is simulated: engine_beside_ibacm_test.cpp.)"""
import random
import time
import unittest

from service_host import SOCKET, Client
from test_service import IBACM, OTHER, OURS, Services

HOSTS = (IBACM, OURS, OTHER)


class Use(Services):
    def path(self, here: str, there: str, kind: str) -> str:
        """ib_acme on `here` by name or IP address, without a verification, which would ask the SA."""
        name = {"n": "node{}", "i": "10.77.0.{}"}[kind]
        words = (
            "ib_acme", "-f", kind, "-s", name.format(here[1:]), "-d", name.format(there[1:]),
            "-S", SOCKET,
        )
        return self.fabric.run(here, *words, seconds=40).out

    def resolves(self, here: str, there: str, kind: str) -> None:
        self.assertRegex(
            self.path(here, there, kind), rf"dlid: {self.lid(there)}\n\s*slid: {self.lid(here)}\n"
        )

    def first_use(self) -> None:
        """ibacm gives up after some seconds, and one that has just started may not hear at once."""
        for here in HOSTS:
            for there in HOSTS:
                for kind in "ni":
                    if here != there:
                        self.eventually(
                            lambda h=here, t=there, k=kind: f"dlid: {self.lid(t)}\n"
                            in self.path(h, t, k),
                            f"{here} resolves {there}",
                        )

    def queries(self) -> int:
        """Path queries that the SA has had from all ports."""
        return int(self.fabric.stats()["total"]["sa_path_queries"])


class Minutes(Use):
    def test_minutes_of_use(self) -> None:
        seed = 20261130
        choice = random.Random(seed)
        self.first_use()
        # Each service knows its peers by now, and answers from what it knows.
        before = self.queries()
        asked = 0
        end = time.monotonic() + 180
        while time.monotonic() < end:
            here, there = choice.sample(HOSTS, 2)
            self.resolves(here, there, choice.choice("ni"))
            asked += 1
        # As many as a busy machine can: each starts a program.
        self.assertGreater(asked, 30)
        self.assertLessEqual(self.queries() - before, 12, f"{asked} questions, seed {seed}")
        # A restart costs its own paths, and those of its peers to it, once.
        before = self.queries()
        self.daemons[OTHER].__exit__()
        self.daemons[OTHER] = self.start(OTHER)
        self.setUp()
        self.first_use()
        for _ in range(50):
            here, there = choice.sample(HOSTS, 2)
            self.resolves(here, there, choice.choice("ni"))
        self.assertLessEqual(self.queries() - before, 24)


class SharedHost(Use):
    """A rank of wireup on ibacm's host, and on its port: whoever resolves for it there."""

    def test_a_rank_beside_ibacm_disturbs_nobody(self) -> None:
        self.first_use()
        ranks = {host: Client(self.fabric, host) for host in HOSTS}
        for rank in ranks.values():
            self.addCleanup(rank.end)
        before = self.queries()
        for _ in range(2):
            for here in HOSTS:
                for there in HOSTS:
                    if here == there:
                        continue
                    gid = f"fe80::5b00:0:0:{there[1:]}01"
                    path = ranks[here].path(f"resolve {gid} 20000")
                    self.assertEqual(path["dlid"], str(self.lid(there)))
                    self.resolves(here, there, "n")
                    self.resolves(here, there, "i")
        # By GID, name and IP address to two peers from three hosts, and the same back; no more for
        # being asked again.
        self.assertLessEqual(self.queries() - before, 36)


if __name__ == "__main__":
    unittest.main(verbosity=2)
