# SPDX-License-Identifier: BSD-3-Clause
"""Runs pyverbs' own tests on the device of a fabric host and writes one JSON object: for each test
its outcome ("passed", "failed" or "skipped") and what was said. Runs under the preload library.

The suite draws capabilities and sizes at random. Here each test draws from a generator of its own,
seeded with its name, so that a run can be repeated and no test depends on which ran before.
"""
import argparse
import json
import random
import sys
import unittest
from pathlib import Path


class Outcomes(unittest.TestResult):
    """Notes each test's outcome; seeds it before it starts."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.outcomes: dict[str, list[str]] = {}

    @staticmethod
    def name_of(test: unittest.TestCase) -> str:
        return test.id().removeprefix("tests.")

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        random.seed(f"{self.seed} {self.name_of(test)}")

    def note(self, test: unittest.TestCase, outcome: str, said: str) -> None:
        self.outcomes[self.name_of(test)] = [outcome, said]

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        # A subtest or the tear-down may have failed already.
        self.outcomes.setdefault(self.name_of(test), ["passed", ""])

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        super().addFailure(test, err)
        self.note(test, "failed", self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: object) -> None:
        super().addError(test, err)
        self.note(test, "failed", self.errors[-1][1])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", type=Path, help="folder that holds the package `tests`")
    parser.add_argument("report", type=Path)
    parser.add_argument("--device", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modules", nargs="*", help="run only these modules' tests")
    arguments = parser.parse_args()
    # As the suite's own run_tests.py: its modules import each other both ways.
    sys.path[:0] = [str(arguments.suite), str(arguments.suite / "tests")]
    from args_parser import parser as suite_parser  # pylint: disable=import-error

    sys.argv[1:] = ["--dev", arguments.device, "--port", "1"]
    suite_parser.parse_args()
    import tests  # pylint: disable=import-error

    outcomes = Outcomes(arguments.seed)
    loader = unittest.defaultTestLoader
    if arguments.modules:
        chosen = [loader.loadTestsFromName(f"tests.{module}") for module in arguments.modules]
    else:
        chosen = [loader.loadTestsFromModule(tests)]
    unittest.TestSuite(chosen).run(outcomes)
    arguments.report.write_text(json.dumps(outcomes.outcomes, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
