#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""ib-fabric as its users see it: up, exec, mpirun, status, down; signals, crashes, other users.

Fabrics here have no softhca, so that these tests show what the testbed itself does and need
nothing built. Every command is bounded.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
TOOL = str(ROOT / "testbed" / "ib-fabric")
CLUSTER = str(ROOT / "testbed" / "topologies" / "cluster-96.topo")
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def run(
    *command: str, prefix: Sequence[str] = (), seconds: int = 60, stdin: str = "", **more: Any
) -> subprocess.CompletedProcess[str]:
    """Runs `ib-fabric COMMAND…` bounded; never raises for its status."""
    return subprocess.run(
        ["timeout", "-k", "5", str(seconds), *prefix, TOOL, *command],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        **more,
    )


def eventually(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def exists(mark: str) -> bool:
    """Is there a process with `mark` as an argument of its own?"""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    return True
            except OSError:
                continue
    return False


def gone(pid: int) -> bool:
    """The process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2][1] == "Z"
    except OSError:
        return True


def output(child: subprocess.Popen[str]) -> IO[str]:
    assert child.stdout is not None
    return child.stdout


class FabricCase(unittest.TestCase):
    """Names fabrics of the test's own and takes them down again."""

    prefix: Sequence[str] = ()

    def setUp(self) -> None:
        self.name = f"t{os.getpid()}-{self._testMethodName[-16:]}"
        self.addCleanup(lambda: run("down", "--name", self.name, prefix=self.prefix))

    def up(self, *args: str) -> subprocess.CompletedProcess[str]:
        done = run("up", "--name", self.name, "--no-softhca", *args, prefix=self.prefix)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done

    def on(self, host: str, *command: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return run("exec", "--name", self.name, host, "--", *command, prefix=self.prefix, **more)

    def mpirun(self, *args: str) -> subprocess.CompletedProcess[str]:
        return run("mpirun", "--name", self.name, *args, prefix=self.prefix, seconds=120)

    def status(self) -> dict[str, Any]:
        done = run("status", "--name", self.name, "--json", prefix=self.prefix)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def start(self, *command: str) -> subprocess.Popen[str]:
        """ib-fabric in the background; killed at the end of the test."""
        child = subprocess.Popen(
            [TOOL, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(child.wait, 30)
        self.addCleanup(output(child).close)
        self.addCleanup(child.kill)
        return child

    def kill_init(self) -> None:
        init = self.status()["init"]
        os.kill(init, signal.SIGKILL)
        self.assertTrue(eventually(lambda: gone(init), 10))


class Lifecycle(FabricCase):
    def test_up_status_up_again_and_down(self) -> None:
        self.assertEqual("absent", self.status()["state"])
        first = self.up()
        self.assertIn("sweeping the fabric", first.stdout)
        self.assertIn("is up: 4 hosts, H1 … H4", first.stdout)
        status = self.status()
        self.assertEqual("up", status["state"])
        self.assertEqual(["H1", "H2", "H3", "H4"], status["hosts"])
        self.assertEqual((4, 4), (status["switches"], status["hcas"]))
        self.assertRegex(status["subnet_manager"], r"OpenSM \d+\.\d+")
        self.assertEqual({"ibsim": "running", "opensm": "running"}, status["daemons"])

        again = self.up()
        self.assertIn("is up already", again.stdout)
        self.assertEqual(status["init"], self.status()["init"])

        other = self.up("--hosts", "2")
        self.assertIn("started with other options", other.stdout)
        self.assertEqual(["H1", "H2"], self.status()["hosts"])

        init = self.status()["init"]
        self.assertIn("is down", run("down", "--name", self.name).stdout)
        self.assertTrue(gone(init))
        self.assertIn("was not up", run("down", "--name", self.name).stdout)
        self.assertFalse(Path(status["directory"]).exists())
        self.assertFalse(Path(status["directory"] + ".lock").exists())

    def test_ups_and_downs_at_once_take_turns(self) -> None:
        ups = [self.start("up", "--name", self.name, "--no-softhca", "--hosts", "1") for _ in "12"]
        self.assertEqual([0, 0], [child.wait(60) for child in ups])
        said = [output(child).read() for child in ups]
        self.assertEqual(1, sum("is up already" in text for text in said), said)
        downs = [self.start("down", "--name", self.name) for _ in "123"]
        self.assertEqual([0, 0, 0], [child.wait(60) for child in downs])
        self.assertEqual(1, sum("is down" in output(child).read() for child in downs))

    def test_all_ports_are_active_when_up_returns(self) -> None:
        self.up("--topology", CLUSTER, "--hosts", "8")
        dump = run("sim", "--name", self.name, "Dump").stdout
        # Port lines of HCAs show a LID; so do the six switches' port 0.
        self.assertEqual(96 + 6, len(re.findall(r"lid [1-9]\d* .*Active/LinkUp$", dump, re.M)))
        self.assertEqual([f"n00{i}" for i in range(1, 9)], self.status()["hosts"])

    def test_without_subnet_manager_and_with_it_stopped(self) -> None:
        self.up("--no-opensm", "--hosts", "1")
        dump = run("sim", "--name", self.name, 'Dump "H-5b00000000000100"').stdout
        self.assertIn("Init/LinkUp", dump)
        sm = ("sm", "--name", self.name)
        self.assertIn("the subnet is up", run(*sm, "start").stdout)
        self.assertIn("running already", run(*sm, "start").stdout)
        dump = run("sim", "--name", self.name, 'Dump "H-5b00000000000100"').stdout
        self.assertIn("Active/LinkUp", dump)
        self.assertIn("opensm ended with status 0", run(*sm, "stop").stdout)
        self.assertEqual("stopped", self.status()["daemons"]["opensm"])
        self.assertEqual("up", self.status()["state"])

    def test_opensm_gets_the_other_options(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            Path(place, "part.conf").write_text("Default=0x7fff,ipoib:ALL=full;\n")
            options = ["--hosts", "2", "-l", "2", "-P", "part.conf"]
            done = run("up", "--name", self.name, "--no-softhca", *options, cwd=place)
            self.assertEqual(0, done.returncode, done.stderr)
            expected = ["-l", "2", "-P", f"{place}/part.conf"]
            self.assertEqual(expected, self.status()["opensm_options"])
        dump = run("sim", "--name", self.name, 'Dump "H-5b00000000000200"').stdout
        self.assertIn("lmc 2", dump)

    def test_a_subnet_manager_that_ends_fails_up_and_leaves_nothing(self) -> None:
        done = run("up", "--name", self.name, "--no-softhca", "--version")
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, r"opensm ended with status 0; its log: \S+/log/opensm.out")
        self.assertEqual("dead", self.status()["state"])

    def test_deadline_names_the_step(self) -> None:
        done = run("up", "--name", self.name, "--no-softhca", "--timeout", "0.001")
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, r"not ready after 0 s, at step '\S+")
        self.assertEqual("dead", self.status()["state"])

    def test_wrong_usage(self) -> None:
        for args, part in (
            (["up", "--hosts", "65"], "1 to 64 can be generated"),
            (["up", "--hosts", "97", "--topology", CLUSTER], "has 96 hosts"),
            (["up", "--name", "a/b"], "bad fabric name"),
            (["exec", "--name", self.name, "H1", "--", "true"], "is not up: start it"),
            (["up", "--name", self.name, "--no-softhca", "-f", "x"], "is not for users"),
            (["nonsense"], "unknown command"),
        ):
            done = run(*args)
            self.assertNotEqual(0, done.returncode)
            self.assertIn(part, done.stderr)

    def test_a_broken_topology_is_refused_with_its_lines(self) -> None:
        text = Path(CLUSTER).read_text(encoding="utf-8")
        with tempfile.NamedTemporaryFile("w", suffix=".topo") as file:
            file.write(text.replace("4xEDR\n\nvendid", "4xEDR\nvendid", 1))
            file.flush()
            done = run("up", "--name", self.name, "--no-softhca", "--topology", file.name)
        self.assertEqual(1, done.returncode)
        where = f"{file.name}:47: a new node follows the record of S-00a0000000000100"
        self.assertIn(where, done.stderr)
        self.assertEqual("absent", self.status()["state"])


class Exec(FabricCase):
    def test_status_output_input_directory_and_environment_pass_through(self) -> None:
        self.up("--hosts", "2")
        self.assertEqual(7, self.on("H1", "sh", "-c", "exit 7").returncode)
        self.assertEqual(127, self.on("H1", "/no/such/program").returncode)
        self.assertEqual(126, self.on("H1", "/etc/passwd").returncode)
        self.assertEqual(128 + 15, self.on("H1", "sh", "-c", "kill -TERM $$").returncode)
        echo = self.on("H2", "sh", "-c", "cat; echo oops >&2", stdin="some\ninput")
        self.assertEqual(("some\ninput", "oops\n"), (echo.stdout, echo.stderr))
        with tempfile.TemporaryDirectory() as place:
            env = {**os.environ, "MARK": "passed on"}
            there = self.on("H2", "sh", "-c", 'pwd; echo "$MARK"', cwd=place, env=env)
        self.assertEqual(f"{place}\npassed on\n", there.stdout)
        self.assertNotEqual(0, self.on("H9", "true").returncode)
        self.assertIn("its hosts: H1, H2", self.on("H9", "true").stderr)
        self.assertEqual(2, run("exec", "--name", self.name, "H1").returncode)

    def test_hosts_are_apart(self) -> None:
        self.up("--hosts", "2")
        self.assertEqual("H2\n", self.on("H2", "hostname").stdout)
        address = r"^\d+: (\S+) +inet (\S+)/"
        inner = self.on("H2", "ip", "-o", "-4", "addr").stdout
        self.assertEqual(
            [("lo", "127.0.0.1"), ("eth0", "10.77.0.2")], re.findall(address, inner, re.M)
        )
        self.assertEqual("10.77.0.1", self.on("H2", "getent", "hosts", "H1").stdout.split()[0])
        self.assertEqual(0, self.on("H2", "ping", "-c", "1", "-W", "5", "H1").returncode)
        for place in ("/run", "/dev/shm", "/run/tmp"):
            self.assertEqual(0, self.on("H1", "touch", f"{place}/of-h1").returncode, place)
            self.assertFalse(Path(place, "of-h1").exists())
            self.assertNotEqual(0, self.on("H2", "test", "-e", f"{place}/of-h1").returncode)
            self.assertEqual(0, self.on("H1", "test", "-e", f"{place}/of-h1").returncode)
        self.assertEqual("/run/tmp\n", self.on("H1", "sh", "-c", 'echo "$TMPDIR"').stdout)
        # One PID namespace for all hosts: an HCA may write into another host's process.
        pids = self.on("H1", "readlink", "/proc/self/ns/pid").stdout
        self.assertEqual(pids, self.on("H2", "readlink", "/proc/self/ns/pid").stdout)
        self.assertNotEqual(pids.strip(), os.readlink("/proc/self/ns/pid"))

    @unittest.skipUnless(os.geteuid() == 0, "only root may map several users")
    def test_several_users_as_root(self) -> None:
        self.up("--hosts", "1")
        user = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"]
        self.assertEqual("1000\n", self.on("H1", *user, "id", "-u").stdout)
        denied = self.on("H1", *user, "touch", "/run/of-user-1000")
        self.assertNotEqual(0, denied.returncode)
        allowed = self.on("H1", *user, "sh", "-c", 'touch "$TMPDIR/mine" /dev/shm/mine')
        self.assertEqual(0, allowed.returncode, allowed.stderr)


class Signals(FabricCase):
    def ready(self, child: subprocess.Popen[str]) -> None:
        self.assertEqual("ready\n", output(child).readline())

    def test_a_signal_reaches_the_command_once_and_its_status_comes_back(self) -> None:
        self.up("--hosts", "1")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            # The command counts: a second delivery would change its status.
            script = (
                f"exec 2>/dev/null; n=0; trap 'n=$((n+1))' {int(number)}; echo ready; "
                "i=0; while [ $i -lt 12 ]; do sleep 0.1; i=$((i + 1 + (n > 0))); done;"
                "exit $((40 + n))"
            )
            child = self.start("exec", "--name", self.name, "H1", "--", "sh", "-c", script)
            self.ready(child)
            child.send_signal(number)
            self.assertEqual(41, child.wait(30), number)

    def soon_ended(self, pid: int) -> bool:
        return eventually(lambda: gone(pid), 20)

    def test_keys_of_the_terminal_reach_the_command(self) -> None:
        self.up("--hosts", "1")
        for key, status in ((b"\x03", 128 + 2), (b"\x04", 0)):  # ^C, ^D
            child, terminal = pty.fork()
            if child == 0:
                os.execv(TOOL, [TOOL, "exec", "--name", self.name, "H1", "--", "cat"])
            try:
                os.write(terminal, b"echoed\n")
                seen = b""
                # Once by the terminal's echo, once by cat: then cat is there.
                while seen.count(b"echoed") < 2:
                    self.assertTrue(select.select([terminal], [], [], 20)[0], seen)
                    seen += os.read(terminal, 100)
                os.write(terminal, key)
                ended = self.soon_ended(child)
                self.assertTrue(ended, key)
                self.assertEqual(status, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            finally:
                os.close(terminal)

    def test_a_command_ends_with_its_killed_caller(self) -> None:
        self.up("--hosts", "1")
        mark = f"86{os.getpid()}"
        script = f"echo ready; exec sleep {mark}"
        child = self.start("exec", "--name", self.name, "H1", "--", "sh", "-c", script)
        self.ready(child)
        self.assertTrue(eventually(lambda: exists(mark), 5))
        child.kill()
        self.assertTrue(eventually(lambda: not exists(mark), 10))

    def test_a_fabric_that_goes_down_ends_the_command_and_says_so(self) -> None:
        self.up("--hosts", "1")
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(
                [TOOL, "exec", "--name", self.name, "H1", "--", "sleep", "600"], stderr=errors
            )
            self.addCleanup(child.kill)
            time.sleep(0.5)
            self.assertEqual(0, run("down", "--name", self.name).returncode)
            self.assertEqual(128 + 9, child.wait(30))
            errors.seek(0)
            self.assertIn("went down while sleep ran", errors.read())


class Mpirun(FabricCase):
    def test_ranks_spread_over_the_hosts_and_options_override(self) -> None:
        self.up()
        spread = self.mpirun("-n", "64", "hostname")
        self.assertEqual(0, spread.returncode, spread.stderr)
        count = {host: spread.stdout.split().count(host) for host in ("H1", "H2", "H3", "H4")}
        self.assertEqual({"H1": 16, "H2": 16, "H3": 16, "H4": 16}, count)
        slot = self.mpirun("--map-by", "slot", "-n", "3", "hostname")
        self.assertEqual(["H1"] * 3, slot.stdout.split())
        some = self.mpirun("--host", "H2,H4", "-n", "2", "hostname")
        self.assertEqual(["H2", "H4"], sorted(some.stdout.split()))
        btl = self.mpirun("--mca", "btl", "self", "-n", "1", "printenv", "OMPI_MCA_btl")
        self.assertEqual("self\n", btl.stdout)

    def test_exit_status_input_and_one_server_for_each_host(self) -> None:
        self.up()
        self.assertEqual(5, self.mpirun("-n", "4", "sh", "-c", "exit 5").returncode)
        piped = run("mpirun", "--name", self.name, "-n", "2", "cat", stdin="to rank 0\n")
        self.assertEqual("to rank 0\n", piped.stdout)
        script = 'echo "$(hostname) $PPID $TMPDIR"'
        lines = set(self.mpirun("-n", "8", "sh", "-c", script).stdout.splitlines())
        self.assertEqual(4, len(lines), lines)  # the ranks of a host have one parent
        self.assertEqual({"/run/tmp"}, {line.split()[2] for line in lines})

    def test_preload_reaches_the_ranks_of_every_context_only(self) -> None:
        self.up("--hosts", "2")
        library = "libSegFault-of-the-test.so"  # absent: ld.so says so and goes on
        show = ["-n", "1", "printenv", "LD_PRELOAD"]
        done = run("mpirun", "--name", self.name, "--preload", library, *show, ":", *show)
        self.assertEqual([library] * 2, done.stdout.split())
        self.assertEqual(0, done.returncode)

    def soon_gone(self, mark: str) -> bool:
        return eventually(lambda: not exists(mark), 20)

    def test_interrupt_and_kill_leave_no_rank(self) -> None:
        self.up()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            mark = f"87{os.getpid()}{int(number)}"
            script = f"echo ready; exec sleep {mark}"
            args = ["mpirun", "--name", self.name, "-n", "4", "sh", "-c", script]
            child = self.start(*args)
            for _ in range(4):
                self.assertEqual("ready\n", output(child).readline())
            child.send_signal(number)
            self.assertNotEqual(0, child.wait(30))
            self.assertTrue(self.soon_gone(mark), number)


class Several(FabricCase):
    def test_two_fabrics_at_once_do_not_see_each_other(self) -> None:
        other = self.name + "b"
        self.addCleanup(lambda: run("down", "--name", other))
        self.up("--hosts", "2")
        done = run("up", "--name", other, "--no-softhca", "--hosts", "2", "-l", "1")
        self.assertEqual(0, done.returncode, done.stderr)
        node = '"H-5b00000000000200"'
        run("sim", "--name", other, f"Unlink {node}[1]")
        here = run("sim", "--name", self.name, f"Dump {node}").stdout
        there = run("sim", "--name", other, f"Dump {node}").stdout
        self.assertIn("Active/LinkUp", here)
        self.assertIn("Down/Polling", there)
        self.assertEqual(0, run("down", "--name", other).returncode)
        self.assertEqual("up", self.status()["state"])
        self.assertEqual("H2\n", self.on("H2", "hostname").stdout)


class Crashes(FabricCase):
    def test_killing_init_ends_every_process_and_up_heals(self) -> None:
        self.up("--hosts", "2")
        mark = f"88{os.getpid()}"
        child = self.start("exec", "--name", self.name, "H2", "--", "sleep", mark)
        self.assertTrue(eventually(lambda: exists(mark), 10))
        log = self.status()["log"]
        self.kill_init()
        self.assertEqual(128 + 9, child.wait(30))
        self.assertFalse(exists(mark))
        self.assertFalse(exists(f"{log}/opensm.log"))  # an argument of OpenSM
        self.assertEqual("dead", self.status()["state"])
        self.assertEqual(1, self.on("H1", "true").returncode)
        self.up("--hosts", "2")
        self.assertEqual("H2\n", self.on("H2", "hostname").stdout)

    def test_down_after_a_crash(self) -> None:
        self.up("--hosts", "1")
        self.kill_init()
        self.assertIn("is down", run("down", "--name", self.name).stdout)
        self.assertEqual("absent", self.status()["state"])

    def test_a_dead_part_shows_and_up_heals(self) -> None:
        for victim, trouble in (
            ("ibsim", "ibsim ended by SIGKILL"),
            ("opensm", "opensm ended by SIGKILL"),
            ("ib-fabric-host-H2", "host H2 is gone"),
        ):
            with self.subTest(victim):
                self.up("--hosts", "2")
                # Inside the fabric, where no other process of that name is to be found.
                killed = self.on("H1", "pkill", "-KILL", "-f", f"^[^ ]*{victim}")
                self.assertEqual(0, killed.returncode)
                self.assertTrue(eventually(lambda: bool(self.status()["state"] == "broken"), 10))
                self.assertIn(trouble, self.up("--hosts", "2").stdout)
                self.assertEqual("up", self.status()["state"])

    def test_a_foreign_process_with_the_recorded_number_is_left_alone(self) -> None:
        self.up("--hosts", "1")
        directory = Path(str(self.status()["directory"]))
        record = directory / "init.json"
        kept = json.loads(record.read_text())
        self.kill_init()
        bystander = subprocess.Popen(["sleep", "600"])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        record.write_text(json.dumps({**kept, "pid": bystander.pid}))
        self.assertEqual("dead", self.status()["state"])
        self.assertIn("is down", run("down", "--name", self.name).stdout)
        self.assertIsNone(bystander.poll())

    def test_a_silent_client_does_not_block_the_control_socket(self) -> None:
        self.up("--hosts", "1")
        path = str(Path(str(self.status()["directory"]), "control"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
            silent.connect(path)
            self.assertEqual("up", self.status()["state"])
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as noisy:
            noisy.settimeout(10)
            noisy.connect(path)
            noisy.sendall(b"nonsense\n")
            self.assertIn(b"error", noisy.recv(4096))
        self.assertEqual("up", self.status()["state"])


class Unprivileged(FabricCase):
    """As user nobody when root runs the tests; as whoever runs them otherwise."""

    prefix = NOBODY if os.geteuid() == 0 else ()

    def test_all_of_it_without_root(self) -> None:
        self.up()
        self.assertEqual("up", self.status()["state"])
        self.assertEqual("0\n", self.on("H3", "id", "-u").stdout)
        self.assertEqual(9, self.on("H3", "sh", "-c", "exit 9").returncode)
        spread = self.mpirun("-n", "64", "hostname")
        self.assertEqual(0, spread.returncode, spread.stderr)
        count = {host: spread.stdout.split().count(host) for host in ("H1", "H2", "H3", "H4")}
        self.assertEqual({"H1": 16, "H2": 16, "H3": 16, "H4": 16}, count)
        init = self.status()["init"]
        self.assertIn("is down", run("down", "--name", self.name, prefix=self.prefix).stdout)
        self.assertTrue(gone(init))

    @unittest.skipUnless(os.geteuid() == 0, "needs a second user")
    def test_a_directory_that_another_user_made_is_refused(self) -> None:
        user = ["setpriv", "--reuid", "61234", "--regid", "61234", "--clear-groups"]
        trap = Path("/tmp/ib-fabric-61234")
        trap.mkdir()
        self.addCleanup(trap.rmdir)
        done = run("up", "--name", self.name, "--no-softhca", prefix=user)
        self.assertEqual(1, done.returncode)
        self.assertIn(f"{trap} is not a directory that only you can write", done.stderr)


if __name__ == "__main__":
    unittest.main()
