# SPDX-License-Identifier: BSD-3-Clause
"""Suite `resolve`: wireup's resolver against the real ibacm, and its cache against a bare probe.

Each round starts the daemons of one kind on all hosts, asks, and ends them; the kinds take turns
and their order changes, so that a drift of the machine favours none. Both kinds are asked by the
same client (bench/resolve/ask_names.cpp) and have the same options and addresses.
"""
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_common import Fabric, Row, make_row

STACK = "wireup"
#: H1 asks for names of the four others.
HOSTS = 5
NAMES_A_HOST = 125
SOCKET = "/run/ibacm-unix.sock"
TARGETS = ["cache_probe", "node_lookup", "getaddrinfo_lookup", "ask_names", "wireup_tool"]
TABLE_ENTRIES = 100_000
PRELOADED = 10_000

OPTIONS = "support_ips_in_addr_cfg 1\nlog_file {log}\nlock_file /run/ibacm.pid\n"
#: ibacm sends one request, one query and one answer at a time unless it is told otherwise.
TUNED = "resolve_depth 128\nsa_depth 128\nsend_depth 128\n"
#: What each kind is told besides OPTIONS.
KINDS = {"wireup": "", "ibacm": "", "ibacm tuned": TUNED}
#: After the daemons are there: all have joined the group, and switches know it.
SETTLE_S = 3.0
#: Until a daemon must be there, or have come to rest.
PATIENCE_S = 60.0


class Daemon:
    """One ACM service on a host, ended at the end of the block."""

    def __init__(
        self, fabric: Fabric, build: Path, place: Path, host: str, kind: str, extra: str = ""
    ) -> None:
        self.fabric = fabric
        self.host = host
        self.output = place / f"{host}.out"
        self.pid_file = place / f"{host}.pid"
        options = place / f"{host}.opts"
        addresses = place / f"{host}.addr"
        options.write_text(OPTIONS.format(log=place / f"{host}.log") + KINDS[kind] + extra)
        number = host[1:]
        names = [f"node{number}", f"10.77.0.{number}", *names_of(host)]
        addresses.write_text("".join(f"{name} softhca0 1 default\n" for name in names))
        if kind == "wireup":
            command = [build / "tools" / "wireup", "serve"]
            command += ["--options", options, "--addresses", addresses]
        else:
            command = ["ibacm", "-P", "-O", options, "-A", addresses]
        # Its number as the host sees it.
        command = ["sh", "-c", f'echo $$ > {self.pid_file}; exec "$@"', "sh", *command]
        self.process = subprocess.Popen(
            fabric.words(host, *command, seconds=600),
            stdin=subprocess.DEVNULL,
            stdout=self.output.open("w"),
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *unused: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def has_addresses(self) -> bool:
        """The service says that its port has the addresses it was told."""
        if self.process.poll() is not None:
            sys.exit(f"bench: the service on {self.host} ended: {self.output.read_text()}")
        done = self.fabric.run(self.host, "ib_acme", "-e", "-S", SOCKET)
        return f"node{self.host[1:]}" in re.split(r"[,\s]", done.stdout)

    def resident_bytes(self) -> int:
        """Memory in use, once it does not change any more."""
        last, since = -1, time.monotonic()
        end = since + PATIENCE_S
        while time.monotonic() < end:
            status = self.fabric.run(
                self.host, "cat", f"/proc/{self.pid_file.read_text().strip()}/status"
            ).stdout
            found = re.search(r"VmRSS:\s+(\d+) kB", status)
            now = int(found.group(1)) * 1024 if found else -1
            if now != last:
                last, since = now, time.monotonic()
            elif now > 0 and time.monotonic() - since > 2:
                return now
            time.sleep(0.2)
        sys.exit(f"bench: the memory of the service on {self.host} does not come to rest")


def names_of(host: str) -> list[str]:
    return [f"{host.lower()}-name{number:03}" for number in range(1, NAMES_A_HOST + 1)]


def wait_for(daemons: list[Daemon]) -> None:
    end = time.monotonic() + PATIENCE_S
    for daemon in daemons:
        while not daemon.has_addresses():
            if time.monotonic() > end:
                sys.exit(f"bench: no service on {daemon.host}: {daemon.output.read_text()}")
            time.sleep(0.1)


class Rounds:
    """Figures of all rounds, by kind and name; equal numbers of each."""

    def __init__(self, fabric: Fabric, build: Path) -> None:
        self.fabric = fabric
        self.build = build
        self.programs = build / "bench"
        self.figures: dict[tuple[str, str], list[float]] = {}

    def note(self, kind: str, name: str, value: float) -> None:
        self.figures.setdefault((kind, name), []).append(value)
        print(f"  {kind} {name}: {value:.1f}", file=sys.stderr)

    def table(self, way: str) -> None:
        """A lookup in a table of many paths, beside writers; ns of processor time."""
        self.note(way, "table", self.fabric.figures(
            "H1", self.programs / "cache_probe", way, TABLE_ENTRIES)["ns"])

    def names(self, kind: str) -> None:
        """A fresh daemon on each host; H1 asks for all names of the others, then for known ones."""
        with tempfile.TemporaryDirectory(prefix="wireup-bench-") as place:
            daemons: list[Daemon] = []
            try:
                for number in range(1, HOSTS + 1):
                    daemons.append(
                        Daemon(self.fabric, self.build, Path(place), f"H{number}", kind)
                    )
                wait_for(daemons)
                time.sleep(SETTLE_S)
                self.cold(kind)
                if kind == "wireup":
                    self.cached_by_wireup()
                elif kind == "ibacm":
                    self.cached_by_ibacm()
            finally:
                for daemon in daemons:
                    daemon.__exit__()

    def cold(self, kind: str) -> None:
        names = [name for number in range(2, HOSTS + 1) for name in names_of(f"H{number}")]
        found = self.fabric.figures(
            "H1", self.programs / "ask_names", SOCKET, "node1", 110, given="\n".join(names)
        )
        if found["resolved"] != len(names):
            sys.exit(f"bench: {kind} resolved {found['resolved']} of {len(names)} names")
        self.note(kind, "cold", found["ms"])

    def cached_by_wireup(self) -> None:
        gid = "fe80::5b00:0:0:201"
        found = self.fabric.figures("H1", self.programs / "node_lookup", gid, 1_000_000)
        self.note("wireup", "cached", found["ns"])

    def cached_by_ibacm(self) -> None:
        here, there = "10.77.0.1", "10.77.0.2"
        found = self.fabric.figures(
            "H1", self.programs / "getaddrinfo_lookup", here, there, 2000
        )
        self.note("ibacm", "rdma_getaddrinfo", found["ns"])
        # It prints no time: many repetitions against few, so that its start does not count.
        few, many = 10, 5010
        took = [self.acme(here, there, times) for times in (few, many)]
        self.note("ibacm", "ib_acme", (took[1] - took[0]) / (many - few) * 1e9)

    def acme(self, here: str, there: str, times: int) -> float:
        start = time.monotonic()
        done = self.fabric.run(
            "H1", "ib_acme", "-f", "i", "-s", here, "-d", there, "-C", times, "-S", SOCKET
        )
        if done.returncode != 0 or "dlid" not in done.stdout:
            sys.exit(f"bench: ib_acme -C {times}: {done.stdout[-500:]}{done.stderr}")
        return time.monotonic() - start

    def memory(self, kind: str) -> None:
        """By how much the daemon of one host grows when it knows many paths from a file."""
        with tempfile.TemporaryDirectory(prefix="wireup-bench-") as place:
            dump = Path(place) / "routes"
            dump.write_text(path_dump(self.own_lid()))
            preload = f"route_preload opensm_full_v1\nroute_data_file {dump}\n"
            sizes = []
            for extra in ("", preload):
                with Daemon(self.fabric, self.build, Path(place), "H1", kind, extra) as daemon:
                    wait_for([daemon])
                    self.check_preloaded(kind, bool(extra))
                    sizes.append(daemon.resident_bytes())
        self.note(kind, "memory", (sizes[1] - sizes[0]) / PRELOADED)

    def own_lid(self) -> int:
        command = [self.build / "softhca" / "softhca", "ports"]
        for line in self.fabric.run("H1", *command).stdout.splitlines():
            words = line.split()
            if words[:1] == ["H1"] and words[2] == "1":
                return int(words[4])
        sys.exit("bench: H1 has no port")

    def check_preloaded(self, kind: str, wanted: bool) -> None:
        """The last path of the dump is known, or not, without asking anybody."""
        end = time.monotonic() + PATIENCE_S
        words = ["ib_acme", "-f", "g", "-c", "-d", gid_of(PRELOADED - 1), "-s"]
        words += ["fe80::5b00:0:0:101", "-S", SOCKET]
        while True:
            known = "dlid" in self.fabric.run("H1", *words).stdout
            if known or not wanted:
                break
            if time.monotonic() > end:
                sys.exit(f"bench: {kind} does not know the paths of its file")
            time.sleep(0.2)
        if known != wanted:
            sys.exit(f"bench: {kind} knows a path that nobody told it")


FIRST_GUID = 0x0002C90300100000


def gid_of(peer: int) -> str:
    guid = FIRST_GUID + peer
    return "fe80::" + ":".join(f"{guid >> shift & 0xFFFF:x}" for shift in (48, 32, 16, 0))


def path_dump(own_lid: int) -> str:
    """What OpenSM writes of a fabric of many ports, as far as it concerns the port of H1."""
    first_lid = 2000
    title = "# LID  : SL : MTU : RATE\n"
    own = f'Channel Adapter 0x5b00000000000101, base LID {own_lid}, "H1 HCA-1", port 1\n' + title
    rows = "".join(f"0x{first_lid + peer:04x} : 0  : 4   : 16\n" for peer in range(PRELOADED))
    others = "".join(
        f"Channel Adapter 0x{FIRST_GUID + peer:016x}, base LID {first_lid + peer}, "
        f'"peer{peer} HCA-1", port 1\n{title}0x{own_lid:04x} : 0  : 4   : 16\n\n'
        for peer in range(PRELOADED)
    )
    return f"{own}0x{own_lid:04x} : 0  : 4   : 16\n{rows}\n{others}"


def measure(fabric: Fabric, build: Path, runs: int) -> list[Row]:
    rounds = Rounds(fabric, build)
    kinds = list(KINDS)
    for run in range(runs):
        print(f"  round {run + 1}/{runs}", file=sys.stderr)
        step = 1 if run % 2 == 0 else -1
        for way in ("lookup", "probe")[::step]:
            rounds.table(way)
        turn = run % len(kinds)
        for kind in kinds[turn:] + kinds[:turn]:
            rounds.names(kind)
        for kind in ("wireup", "ibacm")[::step]:
            rounds.memory(kind)
    figures = rounds.figures
    cached, cold = figures["wireup", "cached"], figures["wireup", "cold"]
    return [
        make_row("cached_lookup", "ns", "ibacm", cached, figures["ibacm", "rdma_getaddrinfo"],
                 note="librdmacm's rdma_getaddrinfo"),
        make_row("cached_lookup", "ns", "ibacm", cached, figures["ibacm", "ib_acme"],
                 note="ib_acme -C"),
        make_row("cached_lookup", "ns", "hash_probe", figures["lookup", "table"],
                 figures["probe", "table"], note=f"{TABLE_ENTRIES} paths, 16 readers, 1 writer"),
        make_row("cold_resolve_500", "ms", "ibacm", cold, figures["ibacm", "cold"],
                 note="ibacm's defaults"),
        make_row("cold_resolve_500", "ms", "ibacm", cold, figures["ibacm tuned", "cold"],
                 note="resolve_depth, sa_depth, send_depth 128"),
        make_row("bytes_per_path", "bytes", "ibacm", figures["wireup", "memory"],
                 figures["ibacm", "memory"], note=f"{PRELOADED} preloaded"),
    ]
