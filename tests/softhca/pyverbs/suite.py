# SPDX-License-Identifier: BSD-3-Clause
"""Debian's pyverbs and its tests, unpacked; the committed list of what they owe; the comparison."""
import gzip
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from debs import Debs, build_folder  # noqa: E402

RUNNER = HERE / "run_suite.py"
EXPECTED = HERE / "expected.txt"
#: Posts and then expects completions without waiting for them: in the asynchronous mode, as on any
#: hardware that is slow, it passes or fails by luck.
RACING = {"test_cq.CQTest.test_resize_cq"}


def unpacked_suite(root: Path) -> Path:
    """The folder with the package `tests`, made from the documentation in an unpacked root."""
    suite = root.parent / "suite"
    ready = suite / "ready"
    documents = root / "usr/share/doc/rdma-core/tests"
    if ready.exists() and ready.stat().st_mtime >= documents.stat().st_mtime:
        return suite
    shutil.rmtree(suite, ignore_errors=True)
    tests = suite / "tests"
    tests.mkdir(parents=True)
    for file in documents.iterdir():
        if file.suffix == ".gz":
            (tests / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.is_file():
            shutil.copy(file, tests / file.name)
    ready.touch()
    return suite


def system_suite() -> tuple[Path, Path]:
    """Folder of the package `tests` and folder of the module pyverbs, of this system's release."""
    root = Debs(build_folder() / "pyverbs").unpack(["python3-pyverbs"])
    return unpacked_suite(root), root / "usr/lib/python3/dist-packages"


def read_expected(path: Path = EXPECTED) -> dict[str, str]:
    """Each test's name with "required", or the reason why it is not required."""
    expected: dict[str, str] = {}
    reason = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            reason = line.strip("[]")
            continue
        if not reason or line in expected:
            raise AssertionError(f"{path.name}:{number}: {line}: no reason, or listed twice")
        expected[line] = reason
    return expected


def mistakes(outcomes: dict[str, list[str]], expected: dict[str, str]) -> list[str]:
    """What is wrong with a run: a required test that did not pass, one that failed although
    nothing is required of it, one that the list does not know, one that was not run."""
    wrong = []
    for name, (outcome, said) in sorted(outcomes.items()):
        reason = expected.get(name)
        if reason is None:
            wrong.append(f"{name}: is not in {EXPECTED.name}; it {outcome} {said}")
        elif reason == "required" and outcome != "passed":
            wrong.append(f"{name}: required, but {outcome}: {said}")
        elif outcome == "failed":
            wrong.append(f"{name}: may be skipped ({reason}), but failed: {said}")
    wrong += [f"{name}: was not run" for name in sorted(expected.keys() - outcomes.keys())]
    return wrong
