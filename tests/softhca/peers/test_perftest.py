# SPDX-License-Identifier: BSD-3-Clause
"""perftest's programs between two hosts: the table that they print and what the ports counted.

Their figures are not judged here, only that there are some. `-n` stays below the 512 receives that
`ib_send_bw` posts: what comes in beyond them is lost by UD and UC, as on hardware, and the server
then waits for minutes before it reports fewer iterations.
"""
import re
import unittest

from peers import CLIENT, SERVER, PeerTest, Traffic

ROUNDS = 200
VERBS = ("send", "write", "read", "atomic")
#: Bytes of a message, unless a program is told otherwise.
SIZES = {"bw": 65536, "lat": 2}
ATOMIC_SIZE = 8
#: Of UD, in one packet.
DATAGRAM = 2048


def row(out: str) -> list[float]:
    """The numbers of the one line below the table's head."""
    lines = iter(out.splitlines())
    for line in lines:
        if re.match(r"\s*#bytes\s+#iterations", line):
            return [float(word) for word in next(lines).split()]
    raise AssertionError(f"no table in:\n{out}")


class PerftestTest(PeerTest):
    def bandwidth(self, verb: str, *options: object, size: int) -> None:
        outputs = self.pair([f"ib_{verb}_bw", "-F", "-n", ROUNDS, *options])
        for out in outputs:
            printed_size, rounds, peak, average, rate = row(out)
            self.assertEqual((printed_size, rounds), (size, ROUNDS), out)
            self.assertGreaterEqual(peak, 0, out)
            self.assertGreater(average, 0, out)
            self.assertGreater(rate, 0, out)

    def latency(self, verb: str, *options: object, size: int) -> None:
        served, done = self.pair([f"ib_{verb}_lat", "-F", "-n", ROUNDS, *options])
        # The passive side of a read or an atomic takes no part and measures nothing.
        for out in [done] if verb in ("read", "atomic") else [served, done]:
            printed_size, rounds, least, most, typical, average, *_ = row(out)
            self.assertEqual((printed_size, rounds), (size, ROUNDS), out)
            self.assertGreater(least, 0, out)
            self.assertLessEqual(least, typical, out)
            self.assertLessEqual(typical, most, out)
            self.assertGreater(average, 0, out)

    def over_rc(self, verb: str, kind: str) -> None:
        traffic = Traffic(self.fabric)
        size = ATOMIC_SIZE if verb == "atomic" else SIZES[kind]
        if kind == "bw":
            self.bandwidth(verb, size=size)
        else:
            self.latency(verb, size=size)
        sent = traffic.grown("rc_sent")
        self.assertEqual(traffic.grown("ud_sent"), {})
        self.assertGreaterEqual(sent.get(CLIENT, 0), ROUNDS, sent)
        if kind == "lat" and verb in ("send", "write"):  # these go back and forth
            self.assertGreaterEqual(sent.get(SERVER, 0), ROUNDS, sent)


class Short(PerftestTest):
    """What the gate runs."""

    def test_atomic_bw(self) -> None:
        self.over_rc("atomic", "bw")

    def test_send_lat(self) -> None:
        self.over_rc("send", "lat")


class All(PerftestTest):
    def test_bandwidth_over_rc(self) -> None:
        for verb in VERBS:
            with self.subTest(verb=verb):
                self.over_rc(verb, "bw")

    def test_latency_over_rc(self) -> None:
        for verb in VERBS:
            with self.subTest(verb=verb):
                self.over_rc(verb, "lat")

    def test_send_bw_over_uc(self) -> None:
        traffic = Traffic(self.fabric)
        self.bandwidth("send", "-c", "UC", size=SIZES["bw"])
        self.assertEqual(traffic.grown("rc_sent"), {CLIENT: ROUNDS})
        self.assertEqual(traffic.grown("ud_sent"), {})

    def test_send_bw_over_ud(self) -> None:
        traffic = Traffic(self.fabric)
        self.bandwidth("send", "-c", "UD", size=DATAGRAM)
        self.assertEqual(traffic.grown("ud_sent"), {CLIENT: ROUNDS})
        self.assertEqual(traffic.grown("ud_received"), {SERVER: ROUNDS})
        self.assertEqual(traffic.grown("multicasts_sent"), {})

    def test_send_bw_to_a_multicast_group(self) -> None:
        traffic = Traffic(self.fabric)
        self.bandwidth("send", "-c", "UD", "-g", size=DATAGRAM)
        self.assertEqual(traffic.grown("multicasts_sent"), {CLIENT: ROUNDS})
        self.assertEqual(traffic.grown("multicasts_received").get(SERVER), ROUNDS)
        self.assertEqual(traffic.grown("rc_sent"), {})
        # Both joined the group at the subnet administration, and left it.
        joined = traffic.grown("sa_other")
        self.assertEqual(sorted(joined), [SERVER, CLIENT])


class Asynchronous(All):
    asynchronous = 12


if __name__ == "__main__":
    unittest.main(verbosity=2)
