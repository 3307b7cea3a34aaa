# SPDX-License-Identifier: BSD-3-Clause
"""scripts/demo, once the packages are there: build, fabric up, connect_all, table."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import report, spec, topology
from .errors import FabricError

_ROOT = Path(__file__).resolve().parents[2]
_TOOL = str(_ROOT / "testbed" / "ib-fabric")
_TARGETS = ("connect_all", "softhca", "softhca_agent", "softhca_cli")
_HOSTS = 4
_HOSTS_OF_TOPOLOGY = 8  # when the file has as many
_BUILD_DEADLINE = 3600.0


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("-n", "--ranks", type=int, default=16, help="default 16")
    parser.add_argument(
        "--hosts", type=int, help=f"default {_HOSTS}, or {_HOSTS_OF_TOPOLOGY} of a topology's"
    )
    parser.add_argument("--topology", metavar="FILE", help="in ibnetdiscover's format")
    parser.add_argument("--json", metavar="FILE", help="write the figures here too")
    given = parser.parse_args(argv)
    if given.ranks < 2:
        parser.error("-n: a connection takes two ranks")
    # Told to end, it takes its fabric down as it does on ^C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return _run(given)
    except FabricError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130


def _run(given: argparse.Namespace) -> int:
    hosts = given.hosts
    if given.topology is not None:
        # Before the build: a mistake in the file should not take minutes to be told.
        known = len(topology.load(given.topology).hosts())
        hosts = hosts if hosts is not None else min(known, _HOSTS_OF_TOPOLOGY)
    hosts = hosts if hosts is not None else _HOSTS
    build = spec.build_dir()
    _build(build)
    os.environ["WIREUP_BUILD"] = str(build)
    name = f"demo{os.getpid()}"
    up = ["up", "--name", name, "--hosts", str(hosts)]
    if given.topology is not None:
        up += ["--topology", given.topology]
    try:
        _say("fabric")
        _fabric(up, 120)
        result = _measure(name, build, given.ranks)
    finally:
        _fabric(["down", "--name", name], 60, check=False, quiet=True)
    if given.json is not None:
        Path(given.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print()
    print(report.table(result))
    if not report.good(result):
        print("\ndemo: not every pair connected with its data right", file=sys.stderr)
        return 1
    return 0


def _say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def _build(build: Path) -> None:
    _say(f"build in {build}")
    if not (build / "build.ninja").exists():
        _check(["cmake", "--preset", "release", "-B", str(build)], 600, "cmake's configure step")
    began = time.monotonic()
    # Ninja shows the progress: one line that changes on a terminal, lines elsewhere.
    env = {**os.environ, "NINJA_STATUS": "[%f/%t, %es] "}
    command = ["cmake", "--build", str(build), "--target", *_TARGETS]
    _check(command, _BUILD_DEADLINE, "the build", env)
    _say(f"built in {time.monotonic() - began:.0f} s")


def _check(
    command: Sequence[str], deadline: float, what: str, env: dict[str, str] | None = None
) -> None:
    try:
        done = subprocess.run(command, cwd=_ROOT, env=env, timeout=deadline, check=False)
    except FileNotFoundError:
        raise FabricError(f"{command[0]} not found: run scripts/setup") from None
    except subprocess.TimeoutExpired:
        raise FabricError(f"{what} took more than {deadline:.0f} s") from None
    if done.returncode != 0:
        raise FabricError(f"{what} failed with status {done.returncode}: {' '.join(command)}")


def _fabric(args: Sequence[str], deadline: int, check: bool = True, quiet: bool = False) -> None:
    out = subprocess.DEVNULL if quiet else None
    command = ["timeout", "-k", "5", str(deadline), _TOOL, *args]
    done = subprocess.run(command, stdout=out, check=False)
    if check and done.returncode != 0:
        raise FabricError(f"'ib-fabric {args[0]}' failed with status {done.returncode}")


def _output(args: Sequence[str], deadline: int) -> Any:
    """The JSON that an ib-fabric command prints."""
    command = ["timeout", "-k", "5", str(deadline), _TOOL, *args]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        if done.returncode == 0:
            return json.loads(done.stdout)
        why = f"ended with status {done.returncode}"
    except ValueError as error:
        why = f"printed no JSON ({error})"
    raise FabricError(f"'ib-fabric {' '.join(args)}' {why}")


def _measure(name: str, build: Path, ranks: int) -> dict[str, Any]:
    """Runs connect_all and joins its figures with the counters of the ports."""
    fabric = _output(["status", "--name", name, "--json"], 30)
    count = ["exec", "--name", name, fabric["hosts"][0], "--"]
    count += [str(build / "softhca" / "softhca"), "stats", "--json"]
    _say(f"connect_all: {ranks} ranks, every pair connects, sends both ways, disconnects")
    before = _output(count, 30)["total"]
    with tempfile.TemporaryDirectory(prefix="wireup-demo-") as place:
        file = Path(place) / "job.json"
        job = ["mpirun", "--name", name, "-n", str(ranks)]
        job += [str(build / "examples" / "connect_all"), "--json", str(file)]
        # Pairs grow with the square of the ranks; two minutes are ample for 64.
        command = ["timeout", "-k", "5", str(120 + ranks * ranks // 50), _TOOL, *job]
        done = subprocess.run(command, check=False)
        after = _output(count, 30)["total"]
        try:
            figures = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FabricError(
                f"connect_all ended with status {done.returncode} and no figures ({error})"
            ) from None
    result = report.merge(figures, before, after, fabric)
    if done.returncode != 0 and report.good(result):
        raise FabricError(f"connect_all ended with status {done.returncode}")
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
