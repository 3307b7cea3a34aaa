# SPDX-License-Identifier: BSD-3-Clause
"""Debian packages unpacked beside the build, without installing them.

Slim images leave documentation out, and another release's libraries cannot be installed beside this
one's. So the packages are downloaded and unpacked under the build tree, with lists of their own, and
kept there for the next run.
"""
import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

ETC_APT = Path("/etc/apt")


def own_release() -> str:
    """The code name of the system's release."""
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip().strip('"')
    raise AssertionError("/etc/os-release names no VERSION_CODENAME")


def sources_for(release: str, folder: Path) -> None:
    """Writes the system's own package sources to `folder`, with another release in them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    found = [ETC_APT / "sources.list", *sorted((ETC_APT / "sources.list.d").glob("*"))]
    for source in found:
        if source.suffix not in (".list", ".sources") or not source.is_file():
            continue
        text = source.read_text(encoding="utf-8")
        if own_release() in text:
            (folder / source.name).write_text(
                re.sub(rf"\b{own_release()}\b", release, text), encoding="utf-8"
            )


class Debs:
    """Packages of one release, unpacked under `home`."""

    def __init__(self, home: Path, release: str = "") -> None:
        self.home = home
        self.release = release or own_release()
        self.home.mkdir(parents=True, exist_ok=True)

    def apt(self, *words: str) -> None:
        for folder in ("lists/partial", "cache/archives/partial", "state"):
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        status = self.home / "state" / "status"
        status.touch()
        options = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": str(self.home / "sources"),
            "Dir::State": str(self.home / "state"),
            "Dir::State::lists": str(self.home / "lists"),
            "Dir::State::status": str(status),
            "Dir::Cache": str(self.home / "cache"),
            "APT::Sandbox::User": "",
            "APT::Install-Recommends": "false",
            "Acquire::Retries": "3",
            "Debug::NoLocking": "true",
        }
        command = ["timeout", "-k", "5", "600", "apt-get", "-qq", "-y"]
        for name, value in options.items():
            command += ["-o", f"{name}={value}"]
        done = subprocess.run(
            [*command, *words], cwd=self.home, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise AssertionError(
                f"apt-get {' '.join(words)} for {self.release} failed:\n{done.stdout}{done.stderr}"
            )

    def unpack(self, packages: list[str], with_dependencies: bool = False) -> Path:
        """The root with these packages in it. Only the first call for a set of packages needs the
        network; several processes may call at once."""
        root = self.home / "root"
        stamp = self.home / "unpacked"
        wanted = " ".join(packages)
        with open(self.home / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
                return root
            stamp.unlink(missing_ok=True)
            sources_for(self.release, self.home / "sources")
            self.apt("update")
            archives = self.home / "cache" / "archives"
            shutil.rmtree(archives, ignore_errors=True)
            if with_dependencies:
                self.apt("--download-only", "install", *packages)
            else:
                archives.mkdir(parents=True)
                self.apt("download", *packages)
                for deb in self.home.glob("*.deb"):
                    deb.rename(archives / deb.name)
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir()
            for deb in sorted(archives.glob("*.deb")):
                subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
            stamp.write_text(wanted, encoding="utf-8")
        return root


def build_folder() -> Path:
    """Where what was unpacked is kept: beside the build tree, since it does not depend on it."""
    root = Path(__file__).resolve().parent.parent.parent
    build = Path(os.environ.get("WIREUP_BUILD", root / "build" / "release")).resolve()
    return build.parent / "debs"
