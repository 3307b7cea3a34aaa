#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A fabric with softhca: what `up` waits for, and what programs on a host find around them."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import unittest
from pathlib import Path

from fabric_test import CLUSTER, FabricCase, run

BUILD = Path(os.environ.get("WIREUP_BUILD", Path(__file__).parents[2] / "build" / "release"))
SOFTHCA = BUILD.absolute() / "softhca"
LIBRARY = str(SOFTHCA / "libsofthca.so")


class WithSofthca(FabricCase):
    def with_softhca(self, *args: str, build: Path = BUILD) -> str:
        env = {**os.environ, "WIREUP_BUILD": str(build)}
        done = run("up", "--name", self.name, *args, env=env)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def ports(self, host: str) -> list[list[str]]:
        done = self.on(host, str(SOFTHCA / "softhca"), "ports")
        self.assertEqual(0, done.returncode, done.stderr)
        return [line.split() for line in done.stdout.partition("\n\n")[0].splitlines()[1:]]

    def test_all_is_published_and_the_sa_answers_when_up_returns(self) -> None:
        self.with_softhca()
        rows = self.ports("H3")
        self.assertEqual(
            [[f"H{i}", "softhca0", "1", "ACTIVE"] for i in range(1, 5)], [row[:4] for row in rows]
        )
        lids = [row[4] for row in rows]
        answer = self.on("H1", "saquery", "PR", "--slid", lids[0], "--dlid", lids[3])
        self.assertEqual(0, answer.returncode, answer.stderr)
        self.assertRegex(answer.stdout, rf"dlid\.+{lids[3]}\n")
        self.assertEqual("running", self.status()["daemons"]["softhca-agent"])

    def test_hosts_of_a_real_cluster(self) -> None:
        self.with_softhca("--topology", CLUSTER, "--hosts", "8")
        rows = self.ports("n008")
        self.assertEqual({"ACTIVE"}, {row[3] for row in rows})
        self.assertEqual(96, len({row[4] for row in rows}))

    def test_without_subnet_manager_ports_stay_in_init(self) -> None:
        self.with_softhca("--no-opensm", "--hosts", "2")
        self.assertEqual(["INIT", "INIT"], [row[3] for row in self.ports("H1")])

    def test_what_a_rank_finds_in_its_environment(self) -> None:
        self.with_softhca()
        script = (
            'echo "$(hostname) $SOFTHCA_HOST $SOFTHCA_DIR $LD_PRELOAD" '
            '"orted:$(tr "\\0" "\\n" <"/proc/$PPID/environ" | grep -c ^LD_PRELOAD)"'
        )
        done = self.mpirun("-n", "4", "sh", "-c", script)
        directory = f"{self.status()['directory']}/softhca"
        self.assertEqual(
            [f"H{i} H{i} {directory} {LIBRARY} orted:0" for i in range(1, 5)],
            sorted(done.stdout.splitlines()),
            done.stderr,
        )

    def test_the_order_of_preloaded_libraries(self) -> None:
        self.with_softhca("--hosts", "1")
        first = "libpthread.so.0"  # any library that loads without doing anything
        options = ("--name", self.name, "--preload", first)
        done = run("exec", *options, "H1", "--", "printenv", "LD_PRELOAD")
        self.assertEqual(f"{first} {LIBRARY}\n", done.stdout)
        done = run("mpirun", *options, "-n", "1", "printenv", "LD_PRELOAD")
        self.assertEqual(f"{first} {LIBRARY}\n", done.stdout)

    def test_devices_are_there_for_every_user(self) -> None:
        self.with_softhca("--hosts", "2")
        listed = self.on("H2", "ibv_devices").stdout
        self.assertEqual(["softhca0"], re.findall(r"softhca\d+", listed))
        if os.geteuid() == 0:
            user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"]
            listed = self.on("H2", *user, "ibv_devices").stdout
            self.assertEqual(["softhca0"], re.findall(r"softhca\d+", listed))

    def test_a_newer_build_restarts_the_fabric(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place, "softhca")
            copy.mkdir()
            for file in ("softhca-agent", "softhca", "libsofthca.so"):
                shutil.copy2(SOFTHCA / file, copy / file)
            self.with_softhca("--hosts", "1", build=Path(place))
            again = self.with_softhca("--hosts", "1", build=Path(place))
            self.assertIn("is up already", again)
            os.utime(copy / "libsofthca.so")
            self.assertIn("restarting", self.with_softhca("--hosts", "1", build=Path(place)))

    def test_without_a_build_the_message_says_what_to_do(self) -> None:
        env = {**os.environ, "WIREUP_BUILD": "/nowhere"}
        done = run("up", "--name", self.name, env=env)
        self.assertEqual(1, done.returncode)
        self.assertIn("not found in /nowhere/softhca: build them with", done.stderr)
        self.assertEqual("absent", self.status()["state"])


if __name__ == "__main__":
    unittest.main()
