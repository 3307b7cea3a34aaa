# SPDX-License-Identifier: BSD-3-Clause
"""What a user sees when something is missing: one clear message, a status that is not 0, no hang."""
import os
import unittest

from fabric import EXAMPLES, Fabric, Output, bounded

RING = EXAMPLES / "ring"


class Errors(unittest.TestCase):
    def check(self, done: Output, *patterns: str) -> None:
        self.assertNotIn(done.status, (0, 124, 137), f"status {done.status}\n{done.all}")
        for pattern in patterns:
            self.assertRegex(done.all, pattern)
        said = [line for line in done.err.splitlines() if "wireup" in line or "ring:" in line]
        self.assertEqual(len(said), 1, f"one message expected:\n{done.all}")

    def test_without_a_fabric(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SOFTHCA")}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = bounded(["mpirun", "-n", "1", RING], 30, env=environment)
        self.check(done, r"no RDMA device")

    def test_without_pmix(self) -> None:
        with Fabric("--hosts", 2, name="nopmix") as fabric:
            self.check(fabric.run("H1", RING), r"PMIx", r"mpirun")

    def test_with_a_wrong_device_name(self) -> None:
        with Fabric("--hosts", 2, name="wrongdev") as fabric:
            done = fabric.mpirun("-x", "WIREUP_DEVICE=mlx5_7", "-n", 1, RING)
            self.check(done, r"mlx5_7", r"softhca0")

    def test_with_opensm_not_running(self) -> None:
        with Fabric("--hosts", 2, "--no-opensm", name="nosm") as fabric:
            done = fabric.mpirun("-n", 1, RING)
            self.check(done, r"softhca0", r"(subnet manager|OpenSM)")

    def test_with_a_memlock_limit_of_64_kib(self) -> None:
        with Fabric("--hosts", 2, name="memlock") as fabric:
            done = fabric.mpirun(
                "-n", 1, "prlimit", "--memlock=65536:65536",
                "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", RING,
            )  # fmt: skip
            self.check(done, r"65536|64 KiB", r"(memlock|locked)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
