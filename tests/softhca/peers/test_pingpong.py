# SPDX-License-Identifier: BSD-3-Clause
"""rdma-core's four ibv_*_pingpong between two hosts: bytes, contents and messages on the wire."""
import unittest

from peers import CLIENT, SERVER, PeerTest, Traffic

ROUNDS = 300
#: Several pages, of which `-c` looks at each; more than a packet of the path MTU.
SIZE = 16384
#: UD carries one packet.
DATAGRAM = 2048


class PingpongTest(PeerTest):
    def pingpong(self, kind: str, *options: object) -> None:
        size = DATAGRAM if kind == "ud" else SIZE
        traffic = Traffic(self.fabric)
        outputs = self.pair(
            [f"ibv_{kind}_pingpong", "-c", "-n", ROUNDS, "-s", size, *options]
        )
        for out in outputs:
            self.assertIn(f"{2 * size * ROUNDS} bytes in", out)
            self.assertIn(f"{ROUNDS} iters in", out)
            self.assertNotIn("invalid data", out)
            for address in ("local", "remote"):
                gid = "fe80::" if "-g" in options else "::\n"
                self.assertRegex(out, rf"{address} address: .* GID {gid}")
        protocol = "ud" if kind == "ud" else "rc"
        for counter in (f"{protocol}_sent", f"{protocol}_received"):
            count = traffic.grown(counter)
            if kind == "srq":
                # Each of its queue pairs may have a message under way at the end.
                self.assertEqual(sorted(count), [SERVER, CLIENT], counter)
                self.assertGreaterEqual(min(count.values()), ROUNDS, counter)
            else:
                self.assertEqual(count, {SERVER: ROUNDS, CLIENT: ROUNDS}, counter)

    def variants(self, kind: str) -> None:
        """Polling and with completion events, by LID and with global route headers."""
        for options in ([], ["-e"], ["-g", "0"], ["-e", "-g", "0"]):
            with self.subTest(kind=kind, options=options):
                self.pingpong(kind, *options)


class Short(PingpongTest):
    """What the gate runs."""

    def test_rc_with_completion_events(self) -> None:
        self.pingpong("rc", "-e")

    def test_ud_with_global_route_headers(self) -> None:
        self.pingpong("ud", "-g", "0")


class All(PingpongTest):
    def test_rc(self) -> None:
        self.variants("rc")

    def test_uc(self) -> None:
        self.variants("uc")

    def test_ud(self) -> None:
        self.variants("ud")

    def test_srq(self) -> None:
        self.variants("srq")


class Asynchronous(All):
    asynchronous = 11


if __name__ == "__main__":
    unittest.main(verbosity=2)
