# SPDX-License-Identifier: BSD-3-Clause
"""What a fabric is asked to be, and the programs of this checkout and system it is made of."""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import FabricError

_SOURCE = Path(__file__).resolve().parents[2]
# Debian keeps these out of an ordinary user's PATH.
_SBIN = "/usr/sbin:/sbin"


@dataclasses.dataclass(frozen=True)
class Spec:
    """The parameters of `up`; two equal specs make the same fabric."""

    hosts: tuple[str, ...]  # the active ones, in order; OpenSM runs on the first
    net_digest: str  # of the simulator's net file
    topology: str  # for people: a path or "generated, 4 hosts"
    opensm: bool
    opensm_options: tuple[str, ...]
    softhca: str | None  # directory of agent and library, None: fabric without them
    softhca_stamp: str  # changes when agent or library were built anew

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(value: Any) -> Spec | None:
        """None when the value was written by another version."""
        try:
            value = dict(value)
            value["hosts"] = tuple(value["hosts"])
            value["opensm_options"] = tuple(value["opensm_options"])
            return Spec(**value)
        except (TypeError, KeyError, ValueError):
            return None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def build_dir() -> Path:
    """The build tree whose softhca is used: WIREUP_BUILD, or build/release of the checkout."""
    given = os.environ.get("WIREUP_BUILD")
    return Path(given).absolute() if given else _SOURCE / "build" / "release"


def softhca_dir() -> Path:
    """Where agent, command line and library were built; all three must be there."""
    path = build_dir() / "softhca"
    missing = [f for f in ("softhca-agent", "softhca", "libsofthca.so") if not (path / f).exists()]
    if missing:
        raise FabricError(
            f"{', '.join(missing)} not found in {path}: build them with\n"
            "  cmake --preset release && cmake --build --preset release\n"
            "or set WIREUP_BUILD to the build tree to use "
            "(--no-softhca makes a fabric without HCAs)"
        )
    return path


def softhca_stamp(path: Path) -> str:
    """Identifies the build of softhca: a fabric of an older one does not fit a newer library."""
    parts = []
    for file in ("softhca-agent", "libsofthca.so"):
        info = (path / file).stat()
        parts.append(f"{file} {info.st_size} {info.st_mtime_ns}")
    return "; ".join(parts)


def program(name: str, package: str) -> str:
    """The path of a system program, or an error that names its Debian package."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":" + _SBIN)
    if found is None:
        raise FabricError(f"{name} not found: install it (scripts/setup, or package {package})")
    return found


def umad2sim() -> str:
    """The preload library that turns libibumad's calls into messages to ibsim."""
    found = sorted(glob.glob("/usr/lib/*/umad2sim/libumad2sim.so"))
    if not found:
        raise FabricError(
            "libumad2sim.so not found: install it (scripts/setup, or package libumad2sim0)"
        )
    return found[0]


# Log file and daemon mode are the fabric's own business.
_REFUSED = ("-f", "--log_file", "-B", "--daemon")


def opensm_options(options: Sequence[str]) -> list[str]:
    """Options for OpenSM, which runs elsewhere: what names a file here names it there too."""
    result = []
    for option in options:
        if option.partition("=")[0] in _REFUSED:
            raise FabricError(f"OpenSM's option {option} is not for users of ib-fabric", 2)
        name, equals, value = option.partition("=")
        if not option.startswith("-") and os.path.exists(option):
            option = os.path.abspath(option)
        elif option.startswith("--") and equals and os.path.exists(value):
            option = f"{name}={os.path.abspath(value)}"
        result.append(option)
    return result


def opensm_version() -> str:
    """The subnet manager as a report names it, e.g. "OpenSM 3.3.23"."""
    done = subprocess.run(
        [program("opensm", "opensm"), "--version"],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith("OpenSM "):
            return line.strip()
    return "OpenSM"
