# SPDX-License-Identifier: BSD-3-Clause
"""Makes topologies: the default fabric, and the clean net file that the simulator reads."""

from __future__ import annotations

from .errors import FabricError
from .topology import HCA, SWITCH, Link, Node, Topology
from .topology_check import SPEEDS, WIDTHS

kMaxGenerated = 64
_HOSTS_PER_LEAF = 16
_SPINES = 2
_SWITCH_PORTS = 36
# Debian's ibsim 0.10 knows no faster speed; what a link says beyond it is lowered.
_FASTEST = "HDR"


def generate(hosts: int) -> Topology:
    """H1…Hn on two or more leaf switches, each leaf with a link to both spines.

    Neighbouring hosts sit on different leaves, so even two hosts are three hops apart.
    """
    if not 1 <= hosts <= kMaxGenerated:
        raise FabricError(f"--hosts {hosts}: 1 to {kMaxGenerated} can be generated")
    leaves = max(2, -(-hosts // _HOSTS_PER_LEAF))
    nodes: list[Node] = []
    for number in range(1, leaves + _SPINES + 1):
        spine = number > leaves
        name = f"spine{number - leaves}" if spine else f"leaf{number}"
        nodes.append(_node(SWITCH, _SWITCH_PORTS, 0x5A00_0000_0000_0000 + (number << 8), name))
    switches = list(nodes)
    for leaf in switches[:leaves]:
        for top in switches[leaves:]:
            _connect(leaf, top)
    for number in range(1, hosts + 1):
        hca = _node(HCA, 1, 0x5B00_0000_0000_0000 + (number << 8), f"H{number} softhca0")
        _connect(switches[(number - 1) % leaves], hca)
        nodes.append(hca)
    return Topology(f"generated, {hosts} hosts", nodes)


def _node(kind: str, ports: int, guid: int, description: str) -> Node:
    prefix = "S" if kind == SWITCH else "H"
    node = Node(kind, ports, f"{prefix}-{guid:016x}", description, 0, guid)
    node.vendor, node.device = 0x2C9, 0x1003
    return node


def _connect(one: Node, two: Node) -> None:
    a, b = len(one.links) + 1, len(two.links) + 1
    one.links[a] = Link(0, two.ident, b, "4x", "EDR")
    two.links[b] = Link(0, one.ident, a, "4x", "EDR")


def write_net(topology: Topology) -> str:
    """The topology in the simulator's terms: one way to write each thing, no LIDs, every
    GUID given, and both ends of a link at the speed that both can."""
    by_id = topology.by_id()
    taken = {node.guid for node in topology.nodes if node.guid is not None}
    free = 0x5C00_0000_0000_0000
    records = []
    for node in topology.nodes:
        guid = node.guid
        if guid is None:
            # Apart by more than the ports of a node, as port GUIDs follow the node's.
            while any(free + i in taken for i in range(256)):
                free += 256
            guid, free = free, free + 256
        records.append("\n".join(_record(node, guid, by_id)))
    return "\n\n".join(records) + "\n\n"


def _record(node: Node, guid: int, by_id: dict[str, Node]) -> list[str]:
    lines = [
        f"vendid={node.vendor or 0:#x}",
        f"devid={node.device or 0:#x}",
        f"sysimgguid={node.system_guid or guid:#x}",
        f"{'switchguid' if node.kind == SWITCH else _guid_key(node.kind)}={guid:#x}",
    ]
    title = f'{node.kind}\t{node.ports} "{node.ident}"\t\t# "{node.description or node.ident}"'
    if node.kind == SWITCH:
        title += f" {'enhanced' if node.enhanced_port0 else 'base'} port 0 lid 0 lmc 0"
    lines.append(title)
    for port, link in sorted(node.links.items()):
        rate = _rate(link, by_id[link.remote_id].links[link.remote_port])
        own = "" if node.kind == SWITCH else f"({guid + port:x})"
        lids = "" if node.kind == SWITCH else "lid 0 lmc 0 "
        line = f'[{port}]{own}\t"{link.remote_id}"[{link.remote_port}]'
        # The quoted id keeps the simulator from taking the first "lid" for the rate's.
        lines.append(line + (f'\t\t# {lids}"{link.remote_id}" lid 0 {rate}' if rate else ""))
    return lines


def _guid_key(kind: str) -> str:
    return "caguid" if kind == HCA else "rtguid"


def _rate(one: Link, two: Link) -> str:
    """Width and speed of a link: the smaller of what its ends say, "" if neither does."""
    widths = [link.width for link in (one, two) if link.width is not None]
    speeds = [link.speed for link in (one, two) if link.speed is not None]
    if not widths or not speeds:
        return ""
    speed = min(SPEEDS.index(speed) for speed in [*speeds, _FASTEST])
    return min(widths, key=WIDTHS.index) + SPEEDS[speed]
