# SPDX-License-Identifier: BSD-3-Clause
"""The MPI programs themselves, on one host: they pass, and a single wrong byte makes them fail."""
import os
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(os.environ.get("WIREUP_BUILD", ROOT / "build" / "release")).resolve() / "tests/mpi"
#: Program and arguments of a short run.
SHORT = [["ring", "1"], ["all_to_all", "1", "256"], ["wildcard", "5"], ["rma", "1", "64"],
         ["threads", "2", "2"]]


def run(words: list[str], ranks: int) -> tuple[int, str]:
    command = ["timeout", "-k", "5", "60", "mpirun", "--oversubscribe", "--bind-to", "none"]
    command += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "osc", "^ucx"]
    command += ["--mca", "mpi_yield_when_idle", "1", "-n", str(ranks)]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    # hwloc reads the names of all PCI vendors, for minutes under AddressSanitizer.
    command += ["-x", "HWLOC_COMPONENTS=-pci", str(PROGRAMS / f"mpi_{words[0]}"), *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class Programs(unittest.TestCase):
    def test_each_passes_and_says_what_it_did(self) -> None:
        for words in SHORT:
            with self.subTest(program=words[0]):
                status, out = run(words, 3)
                self.assertEqual(status, 0, out)
                self.assertRegex(out, rf"{words[0]}: 3 ranks, [1-9]\d* messages, \d+ bytes, all right")

    def test_each_fails_on_one_wrong_byte(self) -> None:
        for words in SHORT:
            with self.subTest(program=words[0]):
                status, out = run([*words, "--flip"], 3)
                self.assertEqual(status, 1, out)
                self.assertRegex(out, r"rank \d: byte \d+ of \d+ in message \d+ from rank 1 to rank")
                self.assertNotIn("all right", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
