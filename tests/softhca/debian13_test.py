# SPDX-License-Identifier: BSD-3-Clause
"""Debian 13's libibverbs 56, unpacked into a root of its own, on the emulated HCA: the interface
between programs and the preload library is that of its users' library, not of the build's."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE / "pyverbs")]

import suite  # noqa: E402
from debs import Debs, build_folder  # noqa: E402
from fabric import Fabric  # noqa: E402

PACKAGES = ["ibverbs-utils", "ibverbs-providers", "python3-pyverbs", "python3"]


class Debian13(unittest.TestCase):
    fabric: Fabric

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = Debs(build_folder() / "trixie", "trixie").unpack(
            PACKAGES, with_dependencies=True
        )
        cls.fabric = Fabric("--hosts", 2, name="debian13").__enter__()
        cls.addClassCleanup(cls.fabric.down)

    def words(self, program: str, *arguments: object) -> list[object]:
        """A program of the root, with its own loader and libraries."""
        libraries = self.root / "usr/lib/x86_64-linux-gnu"
        loader = libraries / "ld-linux-x86-64.so.2"
        return [loader, "--library-path", libraries, self.root / "usr/bin" / program, *arguments]

    def test_the_library_is_version_56(self) -> None:
        libraries = self.root / "usr/lib/x86_64-linux-gnu"
        self.assertTrue(list(libraries.glob("libibverbs.so.1.*.56.*")))

    def test_devinfo(self) -> None:
        done = self.fabric.run("H1", *self.words("ibv_devinfo", "-v"))
        self.assertEqual(done.status, 0, done.all)
        self.assertRegex(done.out, r"hca_id:\s+softhca0")
        self.assertRegex(done.out, r"state:\s+PORT_ACTIVE")

    def test_pingpongs(self) -> None:
        for program, volume in (("rc", 819200), ("uc", 819200), ("ud", 204800), ("srq", 819200)):
            with self.subTest(program=program):
                words = self.words(f"ibv_{program}_pingpong", "-n", 100)
                client, server = self.fabric.pair(("H1", "H2"), words, [*words, "H1"])
                self.assertEqual(client.status, 0, client.all + server.all)
                self.assertIn(f"{volume} bytes in", client.out)
                self.assertIn(f"{volume} bytes in", server.out)

    def test_pyverbs_with_what_is_required_of_version_44(self) -> None:
        tests = suite.unpacked_suite(self.root)
        modules = self.root / "usr/lib/python3/dist-packages"
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            # It asks iproute2 for the device's network interface, which there is not: no links.
            rdma = Path(folder) / "rdma"
            rdma.write_text("#!/bin/sh\necho '[]'\n")
            rdma.chmod(0o755)
            python = self.words("python3.13", "-X", "faulthandler", "-B", suite.RUNNER, tests, report)
            done = self.fabric.run(
                "H1", "env", f"PYTHONPATH={modules}", f"PYTHONHOME={self.root}/usr",
                f"PATH={folder}:/usr/sbin:/usr/bin:/sbin:/bin",
                *python, "--device", "softhca0", seconds=300,
            )  # fmt: skip
            self.assertEqual(done.status, 0, done.all)
            outcomes = json.loads(report.read_text())
        expected = suite.read_expected()
        required = [name for name, reason in expected.items() if reason == "required"]
        self.assertGreaterEqual(len(required), 80)
        wrong = {n: outcomes.get(n) for n in required if outcomes.get(n, [""])[0] != "passed"}
        for name, outcome in wrong.items():
            print(name, (outcome or ["", "?"])[1][-160:], file=sys.stderr)
        self.assertEqual(list(wrong), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
