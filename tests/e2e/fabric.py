# SPDX-License-Identifier: BSD-3-Clause
"""A fabric of a test's own, and bounded commands on its hosts."""
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = ROOT / "testbed" / "ib-fabric"
#: The build tree under test: ctest sets it, a person may.
BUILD = Path(os.environ.get("WIREUP_BUILD", ROOT / "build" / "release")).resolve()
#: The tree whose libsofthca.so and agent make the fabric. Never a sanitized one by need: the
#: preload library is not instrumented in any preset.
EXAMPLES = BUILD / "examples"


@dataclass(frozen=True)
class Output:
    """What a command left: exit status, standard output, standard error."""

    status: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


def bounded(command: list[object], seconds: int, **options: object) -> Output:
    """Runs a command that is killed after `seconds`; a killed one has status 124 or 137."""
    words = ["timeout", "-k", "5", str(seconds), *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", **options)
    return Output(done.returncode, done.stdout, done.stderr)


#: A command in the background.
Program = subprocess.Popen[str]


def end(running: Program) -> None:
    """Ends a program of Fabric.start(), if it still runs, and lets go of its output.

    By SIGTERM, which `timeout` passes on to what runs on the host; it also kills what stays.
    """
    running.terminate()
    try:
        running.wait(timeout=30)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
    for stream in (running.stdout, running.stderr):
        if stream is not None:
            stream.close()


class Fabric:
    """Context manager: `up` with a name of its own, `down` at the end whatever happens.

    `asynchronous` is the seed of softhca's asynchronous mode, in which work requests are executed
    and completed later than they are posted. SOFTHCA_TEST_ASYNC=SEED puts every fabric of a test
    into it, so that any test can be run in both modes. `prefix` is put before every call of
    ib-fabric, such as setpriv with a user.
    """

    def __init__(
        self,
        *arguments: object,
        name: str = "e2e",
        asynchronous: int | None = None,
        prefix: tuple[object, ...] = (),
    ) -> None:
        self.tool = (*prefix, TOOL)
        self.name = f"{name}{os.getpid()}"
        self.arguments = arguments
        self.first_host = ""
        wanted = os.environ.get("SOFTHCA_TEST_ASYNC")
        self.asynchronous = int(wanted) if wanted and asynchronous is None else asynchronous

    def __enter__(self) -> "Fabric":
        done = bounded([*self.tool, "up", "--name", self.name, *self.arguments], 120)
        if done.status != 0:
            self.down()
            raise AssertionError(f"ib-fabric up {self.arguments} failed:\n{done.all}")
        if self.asynchronous is not None and "--no-softhca" not in self.arguments:
            self.fault("async", "--seed", self.asynchronous)
        return self

    def __exit__(self, *unused: object) -> None:
        self.down()

    def down(self) -> None:
        bounded([*self.tool, "down", "--name", self.name], 60)

    def run(self, host: str, *command: object, seconds: int = 60) -> Output:
        return bounded([*self.tool, "exec", "--name", self.name, host, "--", *command], seconds)

    def start(self, host: str, *command: object, seconds: int = 60) -> Program:
        """A command in the background; the caller waits for it or kills it."""
        words = ["timeout", "-k", "5", seconds, *self.tool, "exec", "--name", self.name, host, "--"]
        return subprocess.Popen(
            list(map(str, [*words, *command])),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @contextmanager
    def running(self, host: str, *command: object, seconds: int = 60) -> Iterator[Program]:
        """A command in the background that is ended, if it still runs, on the way out."""
        running = self.start(host, *command, seconds=seconds)
        try:
            yield running
        finally:
            end(running)

    def pair(
        self,
        hosts: tuple[str, str],
        server: list[object],
        client: list[object],
        is_early: Callable[[Output], bool] = lambda done: done.status != 0,
        seconds: int = 60,
    ) -> tuple[Output, Output]:
        """Runs a server on the first host and its client on the second, which is called again
        while `is_early` takes what it said for "no server yet". Returns what the client and the
        server left. A server whose client has failed is ended, for it may wait for ever.
        `seconds` is the limit of either program, and of calling again."""
        with self.running(hosts[0], *server, seconds=seconds) as running:
            deadline = time.monotonic() + seconds
            while True:
                done = self.run(hosts[1], *client, seconds=seconds)
                if not is_early(done) or running.poll() is not None or time.monotonic() > deadline:
                    break
            if done.status != 0:
                running.terminate()
            out, _ = running.communicate(timeout=seconds + 30)
        return done, Output(running.returncode, out, "")

    @contextmanager
    def job(self, *arguments: object, seconds: int = 120) -> Iterator[Program]:
        """An mpirun in the background, its outputs apart, that is ended on the way out."""
        words = ["timeout", "-k", "5", seconds, *self.tool, "mpirun", "--name", self.name]
        running = subprocess.Popen(
            list(map(str, [*words, *arguments])),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield running
        finally:
            end(running)

    def mpirun(self, *arguments: object, seconds: int = 120) -> Output:
        return bounded([*self.tool, "mpirun", "--name", self.name, *arguments], seconds)

    def head(self) -> str:
        """The first host, asked for once."""
        if not self.first_host:
            self.first_host = self.hosts()[0]
        return self.first_host

    def stats(self) -> dict[str, object]:
        """softhca's counters at the ports."""
        done = self.run(self.head(), BUILD / "softhca" / "softhca", "stats", "--json")
        if done.status != 0:
            raise AssertionError(f"softhca stats failed:\n{done.all}")
        return json.loads(done.out)

    def fault(self, *arguments: object) -> None:
        done = self.run(self.head(), BUILD / "softhca" / "softhca", "fault", *arguments)
        if done.status != 0:
            raise AssertionError(f"softhca fault {arguments} failed:\n{done.all}")

    def status(self) -> dict[str, object]:
        done = bounded([*self.tool, "status", "--name", self.name, "--json"], 30)
        return json.loads(done.out)

    def hosts(self) -> list[str]:
        return [host["name"] if isinstance(host, dict) else host for host in self.status()["hosts"]]
