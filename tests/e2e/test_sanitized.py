# SPDX-License-Identifier: BSD-3-Clause
"""Our own programs under the sanitizers of this build, on a fabric, with a lossy network too."""
import os
import subprocess
import unittest

from fabric import BUILD, EXAMPLES, Fabric

SANITIZER = os.environ.get("WIREUP_SANITIZE", "")
RUNTIME = {"address,undefined": "libasan.so", "thread": "libtsan.so"}


def runtime() -> str:
    """The sanitizer's runtime, which has to come before the preloaded HCA."""
    name = RUNTIME[SANITIZER]
    done = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True)
    return os.path.realpath(done.stdout.strip())


#: Leaks are looked for in the unit tests; a launcher's libraries have their own.
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:abort_on_error=0:exitcode=66",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1:exitcode=66",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66:ignore_noninstrumented_modules=1:suppressions="
    + str(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tsan.supp")),
}


class Sanitized(unittest.TestCase):
    fabric: Fabric

    @classmethod
    def setUpClass(cls) -> None:
        cls.fabric = Fabric("--hosts", 4, name="san").__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def check(self, ranks: int, *program: object) -> None:
        words: list[object] = ["--preload", runtime()]
        for name, value in OPTIONS.items():
            words += ["-x", f"{name}={value}"]
        done = self.fabric.mpirun(*words, "-n", ranks, *program, seconds=240)
        self.assertNotRegex(done.all, r"(ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:)")
        self.assertEqual(done.status, 0, done.all)

    def test_connect_all_from_both_sides(self) -> None:
        self.check(8, EXAMPLES / "connect_all", "--both", "--timeout", 100)

    def test_connect_all_with_helper_threads(self) -> None:
        self.check(8, EXAMPLES / "connect_all", "--helper-thread", "--timeout", 100)

    def test_connect_all_over_a_lossy_network(self) -> None:
        self.fabric.fault("ud", "--drop", "20%", "--duplicate", "10%", "--reorder", "10%", "--seed", 3)
        try:
            self.check(6, EXAMPLES / "connect_all", "--both", "--helper-thread", "--timeout", 100)
        finally:
            self.fabric.fault("clear")

    def test_ring(self) -> None:
        self.check(8, EXAMPLES / "ring")


if __name__ == "__main__":
    unittest.main(verbosity=2)
