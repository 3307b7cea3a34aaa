# SPDX-License-Identifier: BSD-3-Clause
"""The result of a connect job: what wireup knows, joined with what the ports counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import FabricError

# The CM messages that make a connection, and those that end it, by softhca's counters.
_CONNECT = {"REQ": "cm_req", "REP": "cm_rep", "RTU": "cm_rtu", "REJ": "cm_rej", "MRA": "cm_mra"}
_DISCONNECT = ("cm_dreq", "cm_drep")

# What the job's own JSON must hold.
_JOB_KEYS = (
    "ranks",
    "hosts",
    "connections",
    "failed",
    "verified",
    "path_sources",
    "cm_carrier",
    "cm_retransmits",
    "connect_us",
)


def merge(
    job: Mapping[str, Any],
    before: Mapping[str, int],
    after: Mapping[str, int],
    fabric: Mapping[str, Any],
) -> dict[str, Any]:
    """One object for --json. `before` and `after` are softhca's totals around the job."""
    missing = [key for key in _JOB_KEYS if key not in job]
    if missing:
        raise FabricError(f"the job's report lacks {', '.join(missing)}")

    def counted(name: str) -> int:
        if name not in after:
            raise FabricError(f"softhca counts no {name}: its build and this script differ")
        return int(after[name]) - int(before.get(name, 0))

    return {
        **job,
        "sa_path_queries": counted("sa_path_queries"),
        "multicasts": counted("multicasts_sent"),
        "cm_messages": sum(counted(name) for name in _CONNECT.values()),
        "cm_messages_by_kind": {kind: counted(name) for kind, name in _CONNECT.items()},
        "cm_disconnect_messages": sum(counted(name) for name in _DISCONNECT),
        "fabric": {key: fabric.get(key) for key in ("subnet_manager", "switches", "hcas")},
    }


def good(report: Mapping[str, Any]) -> bool:
    """Every pair of ranks connected, and the data arrived."""
    pairs = report["ranks"] * (report["ranks"] - 1) // 2
    connected = report["connections"] == pairs and report["failed"] == 0
    return bool(connected and report["verified"] is True)


def table(report: Mapping[str, Any]) -> str:
    """The report for people."""
    connections, failed = int(report["connections"]), int(report["failed"])
    fabric, times = report["fabric"], report["connect_us"]
    sources = sorted(report["path_sources"].items(), key=lambda item: (-item[1], item[0]))
    kinds = [f"{kind} {n}" for kind, n in report["cm_messages_by_kind"].items()]
    each = f"{report['cm_messages'] / connections:.2f}" if connections else "-"
    rows = [
        ("ranks", f"{report['ranks']} on {report['hosts']} hosts"),
        (
            "fabric",
            f"{fabric['switches']} switches, {fabric['hcas']} HCAs, {fabric['subnet_manager']}",
        ),
        ("connections", f"{connections} made, {failed} failed"),
        ("paths from", ", ".join(f"{name} {n}" for name, n in sources) or "none"),
        ("SA path queries", str(report["sa_path_queries"])),
        ("multicasts", str(report["multicasts"])),
        ("CM messages", f"{each} per connection ({', '.join(kinds)})"),
        ("carried by", str(report["cm_carrier"])),
        ("to disconnect", str(report["cm_disconnect_messages"])),
        ("CM retransmits", str(report["cm_retransmits"])),
        (
            "connect time",
            ", ".join(f"{name} {_duration(times[name])}" for name in ("p50", "p99", "max")),
        ),
        ("data", "verified" if report["verified"] is True else "NOT VERIFIED"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def _duration(microseconds: float) -> str:
    if microseconds < 1000:
        return f"{microseconds:.0f} µs"
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.1f} ms"
    return f"{microseconds / 1_000_000:.2f} s"
