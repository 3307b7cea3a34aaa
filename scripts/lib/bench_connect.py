# SPDX-License-Identifier: BSD-3-Clause
"""Suite `connect` of scripts/bench: connections per second against DAPL's own connection test.

In each pattern the same number of connections is made by wireup's CM over both of its carriers and
by dtestcm over ucm (UD datagrams) and scm (TCP), with as many requests under way at a time. Queue
pairs exist beforehand on all sides; that they are moved to RTS is in the time.
"""
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench_common import Fabric, Row, make_row

STACK = "wireup"
HOSTS = 4
TARGETS = ["floor", "connect_cost", "connect_rate", "bench_dtestcm_port"]

#: Shared out evenly among the pairs of a pattern (1, 3, 3 and 12 of them).
CONNECTIONS = 600
#: Under way at a time between the hosts of a pair. dtestcm needs a divisor of a pair's connections.
WINDOW = 10
CARRIERS = ("ud", "gsi")
PROVIDERS = ("ucm", "scm")
#: dtestcm's servers listen from here on, and agree with their clients on further ports before.
FIRST_PORT = 45248
FIRST_CONTROL_PORT = 15900
#: What dtestcm's client says at the end of its connects: the mean of all.
REPORT = re.compile(r"Connections:\s+([\d.]+) usec, .*Num=(\d+)")
#: Servers have to listen before clients call; they say nothing when they do.
SERVER_READY = 3.0


@dataclass(frozen=True)
class Pattern:
    name: str
    #: Ranks of connect_rate, one a host.
    ranks: int
    #: Hosts of the clients and the servers that they call.
    calls: tuple[tuple[str, str], ...]

    @property
    def calls_per_client(self) -> int:
        return len(self.calls) // len({client for client, _ in self.calls})

    @property
    def metric(self) -> str:
        return f"connect_{self.name}"


OTHERS = ("H2", "H3", "H4")
ALL = ("H1", *OTHERS)
PATTERNS = (
    Pattern("1to1", 2, (("H1", "H2"),)),
    Pattern("1toN", 4, tuple(("H1", other) for other in OTHERS)),
    Pattern("Nto1", 4, tuple((other, "H1") for other in OTHERS)),
    Pattern("alltoall", 4, tuple((a, b) for a in ALL for b in ALL if a != b)),
)


class Dapl:
    """dtestcm on a fabric."""

    def __init__(self, fabric: Fabric, build: Path, folder: Path) -> None:
        self.fabric = fabric
        self.ports = build / "bench" / "libdtestcm_port.so"
        self.registry = folder / "dat.conf"
        self.registry.write_text(
            "".join(
                f'{name} u2.0 nonthreadsafe default libdaplo{name}.so.2 dapl.2.0 "softhca0 1" ""\n'
                for name in PROVIDERS
            ),
            encoding="ascii",
        )

    def start(self, host: str, number: int, *words: object) -> "subprocess.Popen[str]":
        """Starts dtestcm for the call of a number."""
        preloading = ["sh", "-c", 'LD_PRELOAD="$0 $LD_PRELOAD" exec "$@"', self.ports]
        environment = [f"DAT_OVERRIDE={self.registry}", f"DTESTCM_PORT={FIRST_CONTROL_PORT + number}"]
        command = self.fabric.words(
            host, "env", *environment, *preloading, "dtestcm", "-p", FIRST_PORT + number, *words
        )
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def rate(self, provider: str, pattern: Pattern) -> float:
        """Connections per second, all calls together: by the slowest client's own time."""
        share = CONNECTIONS // len(pattern.calls)
        common = ["-P", provider, "-c", share, "-b", WINDOW]
        servers = []
        clients = []
        try:
            for number, (_, server) in enumerate(pattern.calls):
                servers.append(self.start(server, number, *common, "-s"))
            time.sleep(SERVER_READY)
            for number, (client, server) in enumerate(pattern.calls):
                clients.append(self.start(client, number, *common, "-h", server))
            times = [self._time_of(client) for client in clients]
        finally:
            for process in (*clients, *servers):
                if process.poll() is None:
                    process.terminate()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()
        return share * len(pattern.calls) / max(times)

    @staticmethod
    def _time_of(client: "subprocess.Popen[str]") -> float:
        """Seconds that a client took for its connects."""
        said, _ = client.communicate()
        found = REPORT.search(said)
        if found is None:
            sys.exit(f"bench: dtestcm's client said no time:\n{said}")
        return float(found.group(1)) * int(found.group(2)) / 1e6


def ours(fabric: Fabric, build: Path, carrier: str, pattern: Pattern) -> dict[str, float]:
    program = build / "bench" / "connect_rate"
    words = [str(program), carrier, pattern.name]
    window = WINDOW * pattern.calls_per_client
    return fabric.report([*words, str(CONNECTIONS), str(window)], pattern.ranks)


def measure(fabric: Fabric, build: Path, runs: int) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        dapl = Dapl(fabric, build, Path(folder))
        for pattern in PATTERNS:
            rows += measure_pattern(fabric, build, dapl, pattern, runs)
    return rows


def measure_pattern(
    fabric: Fabric, build: Path, dapl: Dapl, pattern: Pattern, runs: int
) -> list[Row]:
    rates: dict[str, list[float]] = {name: [] for name in (*CARRIERS, *PROVIDERS)}
    messages: dict[str, list[float]] = {name: [] for name in CARRIERS}
    for run in range(runs):
        # The order alternates, so that a drift of the machine favours nobody.
        for name in list(rates) if run % 2 == 0 else list(reversed(rates)):
            if name in CARRIERS:
                report = ours(fabric, build, name, pattern)
                rates[name].append(report["connections_per_s"])
                messages[name].append(report["messages_per_connection"])
            else:
                rates[name].append(dapl.rate(name, pattern))
        shown = ", ".join(f"{name} {values[-1]:.0f}" for name, values in rates.items())
        print(f"  {pattern.metric} round {run + 1}/{runs}: {shown} conn/s", file=sys.stderr)
    rows = []
    for carrier in CARRIERS:
        most = max(messages[carrier])
        print(
            f"  {pattern.metric} over {carrier}: at most {most:.3f} messages per connection",
            file=sys.stderr,
        )
        for provider in PROVIDERS:
            rows.append(
                make_row(
                    pattern.metric,
                    "1/s",
                    f"dapl_{provider}",
                    rates[carrier],
                    rates[provider],
                    lower_is_better=False,
                    note=f"over {carrier}, {most:.2f} messages a connection",
                )
            )
    return rows
