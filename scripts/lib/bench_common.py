# SPDX-License-Identifier: BSD-3-Clause
"""What the suites of scripts/bench share: a fabric, programs on its hosts, and rows of figures."""
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FABRIC_TOOL = ROOT / "testbed" / "ib-fabric"

Row = dict[str, object]


class Fabric:
    """A fabric of the run's own, ended with it."""

    def __init__(self, hosts: int) -> None:
        self.name = f"bench{os.getpid()}"
        self.hosts = hosts

    def __enter__(self) -> "Fabric":
        command = [FABRIC_TOOL, "up", "--name", self.name, "--hosts", str(self.hosts)]
        subprocess.run(command, check=True, timeout=120, stdout=sys.stderr)
        return self

    def __exit__(self, *unused: object) -> None:
        subprocess.run([FABRIC_TOOL, "down", "--name", self.name], timeout=60, stdout=sys.stderr)

    def measure(self, words: list[str], ranks: int, key: str) -> float:
        """Runs an MPI program on `ranks` ranks, one after the other on the hosts; a figure of it."""
        return float(self.report(words, ranks)[key])

    def report(self, words: list[str], ranks: int) -> dict[str, float]:
        """As measure(), all figures of it."""
        command = ["timeout", "-k", "5", "120", str(FABRIC_TOOL), "mpirun", "--name", self.name]
        command += ["-n", str(ranks), *words]
        return self._json(command)

    def words(self, host: str, *command: object, seconds: int = 120) -> list[str]:
        """The command line that runs a command on a host, for a limited time."""
        words = ["timeout", "-k", "5", seconds, FABRIC_TOOL, "exec", "--name", self.name, host]
        return [*map(str, words), "--", *map(str, command)]

    def run(self, host: str, *command: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(self.words(host, *command), capture_output=True, text=True)

    def figures(self, host: str, *command: object, given: str = "") -> dict[str, float]:
        """The one line of JSON that a program on a host prints; `given` is its input."""
        return self._json(self.words(host, *command), given)

    def _json(self, command: list[str], given: str = "") -> dict[str, float]:
        done = subprocess.run(command, input=given, capture_output=True, text=True)
        said = f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
        if done.returncode != 0:
            sys.exit(f"bench: status {done.returncode} of {said}")
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if len(lines) != 1:
            sys.exit(f"bench: {len(lines)} lines of JSON, 1 expected, from {said}")
        return json.loads(lines[0])


def make_row(
    metric: str,
    unit: str,
    peer: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    lower_is_better: bool = True,
    note: str = "",
) -> Row:
    """A row of a report from the figures of interleaved runs: pair by pair, above 1: ours is better.

    `note` tells rows of one metric and peer apart.
    """
    ratios = [t / o if lower_is_better else o / t for o, t in zip(ours, theirs, strict=True)]
    row: Row = {
        "metric": metric,
        "unit": unit,
        "ours": statistics.median(ours),
        "peer": peer,
        "peer_value": statistics.median(theirs),
        "ratio": statistics.median(ratios),
        "runs": len(ratios),
        "min": min(ratios),
        "max": max(ratios),
    }
    return {**row, "note": note} if note else row


def print_table(stack: str, rows: list[Row]) -> None:
    print(f"{'metric':<16} {'unit':<5} {stack:>10} {'peer':<12} {'value':>10} {'ratio':>7}  min..max")
    for row in rows:
        print(
            f"{row['metric']:<16} {row['unit']:<5} {row['ours']:>10.2f} {row['peer']:<12} "
            f"{row['peer_value']:>10.2f} {row['ratio']:>7.2f}  {row['min']:.2f}..{row['max']:.2f}"
            f"  {row.get('note', '')}".rstrip()
        )
    print(f"ratio above 1: {stack} is better; median over interleaved pairs on one fabric")
