# SPDX-License-Identifier: BSD-3-Clause
"""A 5x5 torus under OpenSM's dfsssp: paths have SLs by destination and by direction."""
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "e2e")]
from fabric import BUILD, Fabric  # noqa: E402
from test_fabric import Client  # noqa: E402

SIDE = 5
#: Hosts that are namespaces; the other ports of the torus are there all the same.
HOSTS = 8


def torus() -> str:
    """One switch and one host for each place, in ibnetdiscover's format."""
    switch = {(x, y): 0x5A00_0000_0000_0100 + 0x100 * (x + SIDE * y)
              for x in range(SIDE) for y in range(SIDE)}
    # Active hosts are the first of the file: spread over the torus, since near ones share an SL.
    order = sorted(switch, key=lambda at: (7 * at[0] + 11 * at[1]) % (SIDE * SIDE))
    host = {at: 0x5B00_0000_0000_0100 + 0x100 * number for number, at in enumerate(order)}
    text = []
    for at, guid in switch.items():
        x, y = at
        ways = [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]
        text.append(f'vendid=0x2c9\ndevid=0x1003\nsysimgguid={guid:#x}\nswitchguid={guid:#x}')
        text.append(f'Switch\t8 "S-{guid:016x}"\t\t# "s{x}{y}"')
        for port, way in enumerate(ways, 1):
            there = switch[way[0] % SIDE, way[1] % SIDE]
            back = (2, 1, 4, 3)[port - 1]
            text.append(f'[{port}]\t"S-{there:016x}"[{back}]\t\t# "s" lid 0 4xEDR')
        text.append(f'[5]\t"H-{host[at]:016x}"[1]({host[at] + 1:x})\t\t# "h" lid 0 4xEDR\n')
    for number, at in enumerate(order, 1):
        guid = host[at]
        text.append(f'vendid=0x2c9\ndevid=0x1003\nsysimgguid={guid:#x}\ncaguid={guid:#x}')
        text.append(f'Ca\t1 "H-{guid:016x}"\t\t# "H{number} softhca0"')
        text.append(f'[1]({guid + 1:x})\t"S-{switch[at]:016x}"[5]\t\t# lid 0 lmc 0 "s" lid 0 4xEDR\n')
    return "\n".join(text) + "\n"


class Torus(unittest.TestCase):
    """dfsssp breaks cycles by SLs: those paths have one SL. The others it spreads over the SLs that
    are left, anew for each answer: any of those is right for them. Many answers tell which is which."""

    fabric: Fabric
    #: By source and destination LID: the SLs, and the MTU and rate, of the SA's records.
    sls: "dict[tuple[int, int], set[int]]"
    shapes: "dict[tuple[int, int], tuple[int, int]]"
    #: What the paths without an SL of their own have.
    spread: "set[int]"

    @classmethod
    def setUpClass(cls) -> None:
        place = tempfile.TemporaryDirectory(prefix="wireup-torus-")
        cls.addClassCleanup(place.cleanup)
        topology = Path(place.name) / "torus.topo"
        topology.write_text(torus())
        cls.fabric = Fabric(
            "--hosts", HOSTS, "--topology", topology, "-R", "dfsssp", "-Q", name="torus"
        ).__enter__()
        cls.addClassCleanup(cls.fabric.down)
        cls.sls, cls.shapes = {}, {}
        for _ in range(12):
            cls.add_records()
        cls.spread = set().union(*(sls for sls in cls.sls.values() if len(sls) > 1))

    @classmethod
    def add_records(cls) -> None:
        done = cls.fabric.run("H1", "saquery", "PR", seconds=60)
        texts = done.out.split("PathRecord dump")[1:]
        if not texts:
            raise AssertionError(f"saquery PR: {done.all[:500]}")
        for text in texts:
            found = dict(re.findall(r"\b(slid|dlid|sl|mtu|rate)\.+(0x[0-9a-fA-F]+|\d+)", text))
            number = {name: int(value, 0) for name, value in found.items()}
            pair = number["slid"], number["dlid"]
            cls.sls.setdefault(pair, set()).add(number["sl"])
            cls.shapes[pair] = number["mtu"] & 0x3F, number["rate"] & 0x3F

    def allowed(self, pair: "tuple[int, int]") -> "set[int]":
        """The SLs that the SA gives to this direction of this pair."""
        return self.sls[pair] if len(self.sls[pair]) == 1 else self.spread

    def ask(self, fabric_host: str, *environment: str) -> Client:
        client = Client(self.fabric, fabric_host, *environment)
        self.addCleanup(client.end)
        return client

    @staticmethod
    def gid(number: int) -> str:
        digits = f"{0x5B00_0000_0000_0101 + 0x100 * (number - 1):016x}"
        return "fe80::" + ":".join(digits[at : at + 4] for at in range(0, 16, 4))

    def expect_record(self, path: "dict[str, str]") -> None:
        """Every field is the record's of the path's own direction."""
        pair = int(path["slid"]), int(path["dlid"])
        with self.subTest(path=path, allowed=self.allowed(pair)):
            self.assertIn(int(path["sl"]), self.allowed(pair))
            self.assertEqual((int(path["mtu"]), int(path["rate"])), self.shapes[pair])
            self.assertEqual(path["origin"], "sa_query")

    def test_both_directions_of_every_pair(self) -> None:
        clients = {number: self.ask(f"H{number}") for number in range(1, HOSTS + 1)}
        pairs = []
        for here, client in clients.items():
            for there in clients:
                if here != there:
                    path = client.path(f"resolve {self.gid(there)} 30000")
                    self.expect_record(path)
                    self.expect_record(client.path(f"lookup {self.gid(there)}"))
                    pairs.append((int(path["slid"]), int(path["dlid"])))
        # Such as only a pair's own record can tell.
        own = [pair for pair in pairs if self.allowed(pair).isdisjoint(self.spread)]
        self.assertTrue(own, "no pair of hosts has an SL of its own")
        both_ways = [pair for pair in own if self.allowed(pair) != self.allowed(pair[::-1])]
        self.assertTrue(both_ways, "no pair of hosts has different SLs by direction")

    def test_without_the_table_paths_would_be_wrong(self) -> None:
        """What the verdict is for. (The last one: a resolver keeps what one before it has cached.)"""
        clients = {n: self.ask(f"H{n}", "WIREUP_SA_BULK=never") for n in range(1, HOSTS + 1)}
        wrong = 0
        for here, client in clients.items():
            for there in clients:
                if here != there:
                    path = client.path(f"resolve {self.gid(there)} 30000")
                    self.assertEqual(path["origin"], "acm_multicast")
                    pair = int(path["slid"]), int(path["dlid"])
                    wrong += int(path["sl"]) not in self.allowed(pair)
        self.assertGreater(wrong, 0)

    def test_queue_pairs_have_the_record_of_their_own_direction(self) -> None:
        done = self.fabric.mpirun(
            "-n", HOSTS, BUILD / "tests" / "e2e" / "qp_attributes", seconds=120
        )
        self.assertEqual(done.status, 0, done.all)
        rows = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
        self.assertEqual(len(rows), HOSTS * (HOSTS - 1), done.all)
        ends = {(row["rank"], row["peer"]): row for row in rows}
        for (rank, peer), row in ends.items():
            pair = row["slid"], row["dlid"]
            out, back = self.shapes[pair], self.shapes[pair[::-1]]
            with self.subTest(rank=rank, peer=peer, out=out, back=back, row=row):
                self.assertIn(row["sl"], self.allowed(pair))
                self.assertEqual(row["record_rate"], out[1])
                self.assertEqual(row["mtu"], min(out[0], back[0]))
                self.assertIn(ends[peer, rank]["sl"], self.allowed(pair[::-1]))
                self.assertEqual(row["origin"], "sa_query")


if __name__ == "__main__":
    unittest.main(verbosity=2)
