# SPDX-License-Identifier: BSD-3-Clause
"""The main job on adapters that complete work later than it is posted: 20 seeds, on one fabric."""
import unittest

from fabric import EXAMPLES, Fabric

SEEDS = range(1, 21)


class Asynchronous(unittest.TestCase):
    fabric: Fabric

    @classmethod
    def setUpClass(cls) -> None:
        cls.fabric = Fabric("--hosts", 4, name="async").__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def each_seed(self, *words: object) -> None:
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.fabric.fault("async", "--seed", seed)
                done = self.fabric.mpirun(*words, seconds=180)
                self.assertEqual(done.status, 0, done.all)

    def test_every_pair_from_one_side(self) -> None:
        self.each_seed("-n", 16, EXAMPLES / "connect_all")

    def test_every_pair_from_both_sides(self) -> None:
        self.each_seed("-n", 16, EXAMPLES / "connect_all", "--both")

    def test_helper_threads_over_a_lossy_network(self) -> None:
        self.fabric.fault("ud", "--drop", "20%", "--duplicate", "10%", "--reorder", "10%", "--seed", 5)
        try:
            self.each_seed("-n", 8, EXAMPLES / "connect_all", "--both", "--helper-thread")
        finally:
            self.fabric.fault("clear")

    def test_ring(self) -> None:
        self.each_seed("-n", 8, EXAMPLES / "ring")


if __name__ == "__main__":
    unittest.main(verbosity=2)
