# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy and clang-format: which files, and running them on all cores.

A file that was found clean is not looked at again until it, one of the headers that it includes
(as the build knows them) or the configuration changes: build/tidy/ keeps the digests.
"""
import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CLEAN = ROOT / "build" / "tidy"
#: A project of its own, built only against an installed wireup.
CONSUMER = "tests/install/consumer"
#: The commit to compare with, where there is no other branch to compare with.
BASE_VARIABLE = "WIREUP_BASE"


def lines_of(command: list[str], folder: Path = ROOT) -> list[str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def git(*arguments: str) -> list[str]:
    return lines_of(["git", *arguments])


def tracked_sources() -> list[str]:
    return git("ls-files", "*.cpp", "*.hpp", "*.c", "*.h")


def tracked_units() -> list[str]:
    return git("ls-files", "*.cpp", f":!{CONSUMER}")


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
    changed = git("diff", "--name-only", "--diff-filter=d", base(), "--", "*.cpp", f":!{CONSUMER}")
    new = git("ls-files", "--others", "--exclude-standard", "--", "*.cpp")
    return sorted({*changed, *new})


def headers_by_unit(build: Path) -> dict[str, list[str]]:
    """What each translation unit of the build includes, as ninja recorded it; absolute paths."""
    result: dict[str, list[str]] = {}
    files: list[str] = []
    for line in [*lines_of(["ninja", "-t", "deps"], build), ""]:
        if line.startswith(" "):
            files.append(str((build / line.strip()).resolve()))
        else:
            if files:
                result[files[0]] = files
            files = []
    return result


class Digests:
    """Digests of files, each read once."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}
        self.setting = self.of(str(ROOT / ".clang-tidy"))

    def of(self, path: str) -> bytes:
        if path not in self.known:
            self.known[path] = hashlib.sha256(Path(path).read_bytes()).digest()
        return self.known[path]

    def of_unit(self, unit: str, files: list[str]) -> str:
        total = hashlib.sha256(self.setting)
        for path in (unit, *files):
            # Named from the root of the tree, so that another clone's marks are as good.
            total.update(path.removeprefix(str(ROOT)).encode() + self.of(path))
        return total.hexdigest()


def check(files: list[str], build: Path) -> bool:
    """True when clang-tidy finds nothing. A file outside the build (a fuzz target, say) is checked
    with the flags that clang-tidy infers from its neighbours, and always."""
    CLEAN.mkdir(parents=True, exist_ok=True)
    headers = headers_by_unit(build)
    digests = Digests()

    def check_one(file: str) -> tuple[str, int, str]:
        unit = str(ROOT / file)
        mark = CLEAN / file.replace("/", "-")
        digest = digests.of_unit(unit, headers[unit]) if unit in headers else ""
        if digest and mark.exists() and mark.read_text() == digest:
            return file, 0, ""
        done = subprocess.run(
            ["timeout", "-k", "5", "600", "clang-tidy", "--quiet", "-p", str(build), file],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            mark.write_text(digest)
        return file, done.returncode, done.stdout + done.stderr

    ok = True
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, status, output in pool.map(check_one, files):
            if status != 0:
                ok = False
                print(f"clang-tidy: {file}:\n{output}", flush=True)
    print(f"  {len(files)} files checked", flush=True)
    return ok


if __name__ == "__main__":
    sys.exit(0 if check(sys.argv[1:] or tracked_units(), ROOT / "build" / "release") else 1)
