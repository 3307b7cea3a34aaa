# SPDX-License-Identifier: BSD-3-Clause
"""libibacm's five calls, made by a C program: with our service, with ibacm, and with neither."""
import re
import unittest

from test_service import (  # noqa: E402
    BUILD,
    IBACM,
    OURS,
    SOCKET,
    Background,
    Client,
    Life,
    ManagementTest,
    Services,
)

CALLER = BUILD / "tests" / "acm" / "libibacm_caller"


class Libibacm(Services):
    """H1 runs ibacm, H2 and H3 our service; whoever's it is, the calls give the same."""

    def test_names_and_addresses(self) -> None:
        for here, there in ((OURS, IBACM), (IBACM, OURS)):
            for kind, text in (("name", "node{}"), ("ip", "10.77.0.{}")):
                with self.subTest(here=here, kind=kind):
                    resolves(self, here, there, kind, text.format(there[1:]), text.format(here[1:]))

    def test_a_source_that_is_chosen(self) -> None:
        resolves(self, OURS, IBACM, "ip", "10.77.0.1")

    def test_paths(self) -> None:
        for here, there in ((OURS, IBACM), (IBACM, OURS)):
            with self.subTest(here=here):
                completes(self, here, there)

    def test_refusals(self) -> None:
        out = self.fabric.run(OURS, CALLER, "name", "node3", "node9", seconds=40).out
        self.assertEqual(out, "failed resolving: Cannot assign requested address\n")
        out = self.fabric.run(OURS, CALLER, "query", 4000, self.lid(OURS), seconds=40).out
        self.assertEqual(out, "failed query: No data available\n")
        out = self.fabric.run(OURS, CALLER, "path", 0, self.lid(OURS), seconds=40).out
        self.assertEqual(out, "failed path: Invalid argument\n")


def fields_of(test: ManagementTest, here: str, there: str, line: str) -> None:
    """The path record is the one that the SA gives."""
    here_lid, there_lid = test.lid(here), test.lid(there)
    record = test.run_on("H1", "saquery", "PR", "--slid", here_lid, "--dlid", there_lid)

    def sa(name: str) -> int:
        return int(re.search(rf"{name}\.+(0x[0-9a-fA-F]+|\d+)", record).group(1), 0)

    test.assertRegex(
        line,
        rf"^path dgid fe80::5b00:0:0:{there[1:]}01 sgid fe80::5b00:0:0:{here[1:]}01 "
        rf"dlid {there_lid} slid {here_lid} pkey 0xffff sl {sa('sl')} mtu 0x{sa('mtu'):02x} "
        rf"rate 0x{sa('rate'):02x} life 0x{sa('pkt_life'):02x} reversible 0x8[01]$",
    )


def resolves(test: ManagementTest, here: str, there: str, *words: object) -> None:
    def resolved() -> bool:
        nonlocal done
        done = test.fabric.run(here, CALLER, *words, seconds=40)
        return done.status == 0

    done = None
    test.eventually(resolved, f"{words} on {here}")
    device, address, path = done.out.splitlines()
    test.assertEqual(device, f"device 0x5b00000000000{here[1:]}00 port 1 pkey_index 0")
    test.assertRegex(
        address,
        rf"^address dlid {test.lid(there)} sl \d+ bits 0 rate \d+ global 1 port 1 "
        r"depth [1-9]\d* resources [1-9]\d*$",
    )
    fields_of(test, here, there, path)


def completes(test: ManagementTest, here: str, there: str) -> None:
    gids = [f"fe80::5b00:0:0:{host[1:]}01" for host in (there, here)]
    lids = [test.lid(there), test.lid(here)]
    for kind, words in (("path", lids), ("query", lids), ("gids", gids)):
        out = test.run_on(here, CALLER, kind, *words)
        fields_of(test, here, there, out.strip())


class Alone(ManagementTest):
    """No service on H1, where the calls are made; one on H2, which answers by multicast."""

    options = ("--hosts", 2)

    def test_without_a_service(self) -> None:
        with Background(self.fabric, "H2", *Life.command()) as service:
            self.eventually(
                lambda: self.fabric.run("H2", "test", "-S", SOCKET).status == 0, service.output
            )
            # Without an address file a host's name is its address.
            resolves(self, "H1", "H2", "name", "H2", "H1")
            resolves(self, "H1", "H2", "name", "H2")
            completes(self, "H1", "H2")
            # A rank is the node's resolver: it is asked.
            rank = Client(self.fabric, "H1")
            try:
                self.eventually(lambda: rank.ask("resolver") == "yes", "the rank resolves")
                resolves(self, "H1", "H2", "name", "H2", "H1")
            finally:
                rank.end()
            done = self.fabric.run("H1", CALLER, "name", "H2", "H9", seconds=40)
            self.assertEqual(done.out, "failed resolving: Cannot assign requested address\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
