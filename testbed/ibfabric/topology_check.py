# SPDX-License-Identifier: BSD-3-Clause
"""Everything that the simulator, OpenSM or the hosts' names cannot take, found beforehand.

ibsim ends with a panic on some of these mistakes, silently drops nodes on others, and OpenSM
then waits for ever; so each is refused here with its line.
"""

from __future__ import annotations

import re

from .topology import HCA, SWITCH, Link, Node, Problem, Topology

# The simulator's tables (its defaults) and buffers.
kMaxNodes = 2048
kMaxSwitches = 256
kMaxPorts = 13312
kMaxNodePorts = 254  # port 255 means "all ports" in a MAD
kMaxIdLength = 31  # a client names its node in 32 bytes
kMaxDescriptionLength = 63  # NodeDescription is 64 bytes

WIDTHS = ("1x", "2x", "4x", "8x", "12x")
SPEEDS = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR")

_ID = re.compile(r"[A-Za-z0-9_.:+/-]+")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")


def check(topology: Topology) -> list[Problem]:
    """All mistakes of a parsed topology; empty means that it can be used."""
    problems: list[Problem] = []
    if not topology.nodes:
        return [Problem(1, "the file holds no node")]
    _check_sizes(topology, problems)
    _check_ids(topology, problems)
    _check_guids(topology, problems)
    by_id = topology.by_id()
    for node in topology.nodes:
        _check_node(node, problems)
        for port, link in node.links.items():
            _check_link(node, port, link, by_id, problems)
    _check_hosts(topology, problems)
    return problems


def _check_sizes(topology: Topology, problems: list[Problem]) -> None:
    ports = sum(node.ports + (node.kind == SWITCH) for node in topology.nodes)
    for what, count, limit in (
        ("nodes", len(topology.nodes), kMaxNodes),
        ("switches", topology.count(SWITCH), kMaxSwitches),
        ("ports", ports, kMaxPorts),
    ):
        if count > limit:
            problems.append(Problem(1, f"{count} {what}; the simulator takes {limit}"))


def _check_ids(topology: Topology, problems: list[Problem]) -> None:
    first: dict[str, Node] = {}
    for node in topology.nodes:
        if not _ID.fullmatch(node.ident):
            problems.append(
                Problem(node.line, f"id {node.ident!r}: letters, digits and _.:+/- only")
            )
        if len(node.ident) > kMaxIdLength:
            problems.append(
                Problem(
                    node.line,
                    f"id {node.ident!r} has {len(node.ident)} characters, at most {kMaxIdLength}",
                )
            )
        if node.ident in first:
            line = first[node.ident].line
            problems.append(Problem(node.line, f"id {node.ident} is already in line {line}"))
        first.setdefault(node.ident, node)


def _check_guids(topology: Topology, problems: list[Problem]) -> None:
    nodes: dict[int, Node] = {}
    ports: dict[int, Node] = {}
    for node in topology.nodes:
        if node.guid is None:
            continue
        if not 0 < node.guid < 1 << 64:
            problems.append(Problem(node.guid_line, f"GUID {node.guid:#x} is not in 1..2^64-1"))
            continue
        if node.guid in nodes:
            other = nodes[node.guid]
            problems.append(
                Problem(
                    node.guid_line,
                    f"GUID {node.guid:#x} of {node.ident} is already that of {other.ident} "
                    f"(line {other.guid_line})",
                )
            )
            continue
        nodes[node.guid] = node
        for port in range(1, 2 if node.kind == SWITCH else min(node.ports, kMaxNodePorts) + 1):
            guid = node.port_guid(port)
            assert guid is not None
            if guid in ports:
                other = ports[guid]
                problems.append(
                    Problem(
                        node.guid_line,
                        f"port GUID {guid:#x} of {node.ident} (node GUID + port number, as the "
                        f"simulator counts) is already that of a port of {other.ident} "
                        f"(line {other.guid_line}): change one node's GUID",
                    )
                )
            ports.setdefault(guid, node)


def _check_node(node: Node, problems: list[Problem]) -> None:
    if not 1 <= node.ports <= kMaxNodePorts:
        problems.append(
            Problem(node.line, f"{node.ident} has {node.ports} ports; 1 to {kMaxNodePorts} are")
        )
    text = node.description
    if text is None:
        if node.kind == HCA:
            problems.append(
                Problem(
                    node.line,
                    f'{node.ident} has no description: add # "HOST DEVICE"; its first word '
                    "names the host",
                )
            )
        return
    if len(text.encode()) > kMaxDescriptionLength:
        problems.append(
            Problem(
                node.line,
                f"description of {node.ident} has {len(text.encode())} bytes, "
                f"at most {kMaxDescriptionLength}",
            )
        )
    if not text.isprintable():
        problems.append(Problem(node.line, f"description of {node.ident} is not printable"))


def _check_link(
    node: Node, port: int, link: Link, by_id: dict[str, Node], problems: list[Problem]
) -> None:
    def complain(text: str) -> None:
        problems.append(Problem(link.line, text))

    if not 1 <= port <= node.ports:
        complain(f"port {port} of {node.ident} is not in 1..{node.ports} (line {node.line})")
        return
    if link.width is not None and link.width not in WIDTHS:
        complain(f"link width {link.width!r} is none of {' '.join(WIDTHS)}")
    if link.speed is not None and link.speed not in SPEEDS:
        complain(f"link speed {link.speed!r} is none of {' '.join(SPEEDS)}")
    remote = by_id.get(link.remote_id)
    if remote is None:
        complain(f"port {port} of {node.ident} leads to {link.remote_id!r}, which is no node here")
        return
    if not 1 <= link.remote_port <= remote.ports:
        complain(
            f"port {port} of {node.ident} leads to port {link.remote_port} of {remote.ident}, "
            f"which has ports 1..{remote.ports} (line {remote.line})"
        )
        return
    if remote is node and link.remote_port == port:
        complain(f"port {port} of {node.ident} leads to itself")
        return
    back = remote.links.get(link.remote_port)
    if back is None:
        complain(
            f"port {port} of {node.ident} leads to port {link.remote_port} of {remote.ident}, "
            f"but the record of {remote.ident} (line {remote.line}) has no such port line"
        )
    elif (back.remote_id, back.remote_port) != (node.ident, port):
        complain(
            f"port {port} of {node.ident} leads to port {link.remote_port} of {remote.ident}, "
            f"but that one leads to port {back.remote_port} of {back.remote_id} "
            f"(line {back.line})"
        )


def _check_hosts(topology: Topology, problems: list[Problem]) -> None:
    hosts = topology.hosts()
    if not hosts and not problems:
        problems.append(Problem(1, "no HCA that belongs to a host (a 'Ca' node)"))
    for host in hosts:
        if not _HOST_NAME.fullmatch(host.name):
            problems.append(
                Problem(
                    host.hcas[0].line,
                    f"{host.name!r}, the first word of the description, cannot name a host: "
                    "letters, digits, '.' and '-' only, at most 63",
                )
            )
    # Reachability from the first host only makes sense on links that are all right.
    if hosts and not problems:
        _check_reachable(topology, hosts[0].hcas[0], problems)


def _check_reachable(topology: Topology, start: Node, problems: list[Problem]) -> None:
    by_id = topology.by_id()
    seen = {start.ident}
    todo = [start]
    while todo:
        for link in todo.pop().links.values():
            if link.remote_id not in seen:
                seen.add(link.remote_id)
                todo.append(by_id[link.remote_id])
    for host in topology.hosts():
        for hca in host.hcas:
            if hca.ident not in seen:
                problems.append(
                    Problem(
                        hca.line,
                        f"{hca.ident} ({host.name}) cannot be reached from {start.ident}, "
                        "where the subnet manager runs",
                    )
                )
