# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy and clang-format: which files, and running them on all cores."""
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
#: The commit to compare with, where there is no other branch to compare with.
BASE_VARIABLE = "WIREUP_BASE"


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def tracked_sources() -> list[str]:
    return git("ls-files", "*.cpp", "*.hpp", "*.c", "*.h")


def tracked_units() -> list[str]:
    return git("ls-files", "*.cpp", "*.c")


def base() -> str:
    """What a change is held against: $WIREUP_BASE, else where this branch left the remote's main,
    else the commit before the last."""
    named = os.environ.get(BASE_VARIABLE)
    if named:
        return named
    head = git("rev-parse", "HEAD")
    fork = git("merge-base", "HEAD", "origin/main")
    if fork and fork != head:
        return fork[0]
    return "HEAD~1"


def changed_units() -> list[str]:
    """Translation units that differ from the base, committed or not, and those that are new."""
    changed = git("diff", "--name-only", "--diff-filter=d", base(), "--", "*.cpp", "*.c")
    new = git("ls-files", "--others", "--exclude-standard", "--", "*.cpp", "*.c")
    return sorted({*changed, *new})


def check(files: list[str], build: Path) -> bool:
    """True when clang-tidy finds nothing. A file outside the build (a fuzz target, say) is checked
    with the flags that clang-tidy infers from its neighbours."""

    def check_one(file: str) -> tuple[str, int, str]:
        done = subprocess.run(
            ["timeout", "-k", "5", "300", "clang-tidy", "--quiet", "-p", str(build), file],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        return file, done.returncode, done.stdout + done.stderr

    ok = True
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, status, output in pool.map(check_one, files):
            if status != 0:
                ok = False
                print(f"clang-tidy: {file}:\n{output}", flush=True)
    print(f"  {len(files)} files checked", flush=True)
    return ok
