# SPDX-License-Identifier: BSD-3-Clause
"""pyverbs' own test suite on a fabric host, against the committed list of what must pass."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

import suite

sys.path.insert(0, str(suite.HERE.parent.parent / "e2e"))

from fabric import Fabric  # noqa: E402


class List(unittest.TestCase):
    """The list and the comparison themselves, without a fabric."""

    def test_at_least_80_tests_are_required(self) -> None:
        required = [n for n, reason in suite.read_expected().items() if reason == "required"]
        self.assertGreaterEqual(len(required), 80)

    def test_each_kind_of_mistake_is_found(self) -> None:
        expected = {"a": "required", "b": "required", "c": "no such device", "d": "required"}
        outcomes = {
            "a": ["skipped", "?"],
            "b": ["failed", "?"],
            "c": ["failed", "?"],
            "new": ["passed", ""],
        }
        found = suite.mistakes(outcomes, expected)
        self.assertEqual([line.split(":")[0] for line in found], ["a", "b", "c", "new", "d"])
        self.assertEqual(suite.mistakes({"c": ["skipped", "?"]}, {"c": "no such device"}), [])


class Suite(unittest.TestCase):
    fabric: Fabric

    @classmethod
    def setUpClass(cls) -> None:
        cls.tests, cls.modules = suite.system_suite()
        cls.fabric = Fabric("--hosts", 2, name="pyverbs").__enter__()
        cls.addClassCleanup(cls.fabric.down)

    def run_suite(self, seed: int) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            done = self.fabric.run(
                "H1", "env", f"PYTHONPATH={self.modules}", "/usr/bin/python3", "-B",
                suite.RUNNER, self.tests, report, "--device", "softhca0", "--seed", seed,
                seconds=300,
            )  # fmt: skip
            self.assertEqual(done.status, 0, done.all)
            outcomes = json.loads(report.read_text())
        expected = suite.read_expected()
        if self.fabric.asynchronous is not None:
            for name in suite.RACING:
                outcomes.pop(name)
                expected.pop(name)
        return suite.mistakes(outcomes, expected)

    def test_every_required_test_passes(self) -> None:
        self.assertEqual(self.run_suite(1), [])


class Seeds(Suite):
    """The same with other random sizes and capabilities."""

    def test_every_required_test_passes(self) -> None:
        for seed in range(2, 22):
            with self.subTest(seed=seed):
                self.assertEqual(self.run_suite(seed), [])


class Asynchronous(Suite):
    """The same while work requests complete later than they are posted."""

    def test_every_required_test_passes(self) -> None:
        for seed in range(1, 21):
            with self.subTest(seed=seed):
                self.fabric.asynchronous = seed
                self.fabric.fault("async", "--seed", seed)
                self.assertEqual(self.run_suite(seed), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
