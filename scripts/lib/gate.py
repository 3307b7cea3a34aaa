#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the gate (scripts/test) or all there is (scripts/test --full).

A stage is a build, a check or a set of ctests. All stages run, also after one has failed, unless
what they need was not built. The last line is the sum of the tests: `N passed, N failed` and, where
some were skipped, `N skipped`.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import tidy

ROOT = Path(__file__).resolve().parent.parent.parent
#: Tests that may be skipped, by the start of their reason; any other skip fails the run.
ALLOWED_SKIPS = (
    "needs a second user on a fabric that was started without root",
    "the kernel here lacks",
)
#: How many times their usual rounds the random tests make in the full run, by preset.
TIMES_IN_FULL = {"release": "50", "asan": "5", "tsan": "5"}


@dataclass
class Tally:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def check(self, name: str, ok: bool) -> bool:
        if ok:
            self.passed += 1
        else:
            self.failed.append(name)
        return ok


def say(text: str) -> None:
    print(f"\n=== {text}", flush=True)


def run(command: list[str], seconds: int, **variables: str) -> bool:
    """Runs a command in a process group of its own, which is ended with it."""
    shown = command if len(command) <= 20 else [*command[:4], f"... ({len(command)} words)"]
    print("+ " + " ".join(shown), flush=True)
    started = time.monotonic()
    with subprocess.Popen(
        ["timeout", "-k", "5", str(seconds), *command], cwd=ROOT, env={**os.environ, **variables}
    ) as process:
        status = process.wait()
    taken = time.monotonic() - started
    print(f"  [{taken:.0f} s] {'ok' if status == 0 else f'status {status}'}", flush=True)
    return status == 0


class Gate:
    def __init__(self, full: bool) -> None:
        self.full = full
        self.tally = Tally()
        self.results = ROOT / "build" / "results"
        shutil.rmtree(self.results, ignore_errors=True)
        self.results.mkdir(parents=True)

    def build(self, preset: str) -> bool:
        say(f"build {preset}")
        jobs = str(os.cpu_count() or 2)
        ok = run(["cmake", "--preset", preset], 120) and run(
            ["cmake", "--build", "--preset", preset, "-j", jobs], 3600
        )
        return self.tally.check(f"build.{preset}", ok)

    def ctest(self, preset: str, labels: str, excluded: str = "") -> None:
        """Runs the ctests of a build that have one of the labels, and counts them."""
        say(f"tests of {preset}: {labels}")
        report = self.results / f"{preset}-{labels.replace('|', '-')}.xml"
        command = ["ctest", "--test-dir", f"build/{preset}", "-L", labels, "--output-on-failure"]
        command += ["--no-tests=error", "--output-junit", str(report), "-j", "2"]
        if excluded:
            command += ["-LE", excluded]
        times = TIMES_IN_FULL.get(preset, "1") if self.full else "1"
        ended_well = run(command, 14400 if self.full else 2000, WIREUP_TIMES=times)
        self.count(preset, report, ended_well)

    def count(self, preset: str, report: Path, ended_well: bool) -> None:
        failed = 0
        if report.exists():
            for case in ElementTree.parse(report).getroot().iter("testcase"):
                name = f"{preset}:{case.get('name')}"
                status = case.get("status")
                if status == "run":
                    self.tally.passed += 1
                elif status in ("notrun", "disabled"):
                    self.tally.skipped.append((name, skip_reason(case)))
                else:
                    failed += 1
                    self.tally.failed.append(name)
        if not ended_well and failed == 0:
            self.tally.failed.append(f"{preset}: ctest itself")

    def script(self, name: str, command: list[str], seconds: int) -> None:
        say(name)
        self.tally.check(name, run(command, seconds))

    def format(self) -> None:
        say("clang-format")
        files = tidy.tracked_sources()
        self.tally.check("clang-format", run(["clang-format", "--dry-run", "--Werror", *files], 300))

    def tidy(self) -> None:
        say("clang-tidy on " + ("all files" if self.full else "changed files"))
        files = tidy.tracked_units() if self.full else tidy.changed_units()
        if not files:
            print("  no translation unit has changed")
            return
        self.tally.check("clang-tidy", tidy.check(files, ROOT / "build" / "release"))

    def run_gate(self) -> None:
        self.format()
        if self.build("release"):
            self.tidy()
            self.ctest("release", "unit|integration")
            self.ctest("release", "pmix|fabric")
        if self.build("asan"):
            self.ctest("asan", "unit|integration")
            self.ctest("asan", "sanitized")
        if self.full:
            self.run_full()

    def run_full(self) -> None:
        if self.build("tsan"):
            self.ctest("tsan", "unit")
            self.ctest("tsan", "sanitized")
        self.ctest("asan", "pmix")
        if self.build("fuzz"):
            self.ctest("fuzz", "fuzz")
        self.ctest("release", "full")
        self.script("bench", ["scripts/bench", "all"], 1800)

    def close(self) -> int:
        tally = self.tally
        forbidden = [(n, r) for n, r in tally.skipped if not r.startswith(ALLOWED_SKIPS)]
        if tally.skipped:
            say("skipped")
            for name, reason in tally.skipped:
                print(f"  {name}: {reason or 'no reason given'}")
        for name, reason in forbidden:
            tally.failed.append(f"{name} (skipped, but required)")
        if tally.failed:
            say("failed")
            for name in tally.failed:
                print(f"  {name}")
        skipped = len(tally.skipped) - len(forbidden)
        summary = f"{tally.passed} passed, {len(tally.failed)} failed"
        print("\n" + summary + (f", {skipped} skipped" if skipped else ""), flush=True)
        return 1 if tally.failed or tally.passed == 0 else 0


def skip_reason(case: ElementTree.Element) -> str:
    """What a skipped test gave as its reason: `skipped: REASON`, or GoogleTest's line after
    `FILE:LINE: Skipped`."""
    lines = [line.strip() for line in (case.findtext("system-out") or "").splitlines()]
    for line, following in zip(lines, [*lines[1:], ""]):
        if line.lower().startswith("skipped:"):
            return line.split(":", 1)[1].strip()
        if line.endswith(": Skipped"):
            return following
    return case.get("message") or ""


def main() -> int:
    parser = argparse.ArgumentParser(description="The gate of wireup.")
    parser.add_argument("--full", action="store_true", help="everything, without a time limit")
    arguments = parser.parse_args()
    started = time.monotonic()
    gate = Gate(arguments.full)
    gate.run_gate()
    print(f"\n{'full run' if arguments.full else 'gate'}: {time.monotonic() - started:.0f} s")
    return gate.close()


if __name__ == "__main__":
    sys.exit(main())
