# SPDX-License-Identifier: BSD-3-Clause
"""An InfiniBand topology as values: nodes, links, and the hosts that own the HCAs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from .errors import FabricError

SWITCH = "Switch"
HCA = "Ca"
ROUTER = "Rt"

# HCAs that live inside switches (in-network reduction); they are no hosts.
_NOT_A_HOST = ("Mellanox Technologies Aggregation Node",)


@dataclasses.dataclass(frozen=True)
class Problem:
    """One mistake in a topology file, at a line counted from 1."""

    line: int
    text: str


class TopologyError(FabricError):
    """All mistakes that were found, in the order of their lines."""

    kShown = 20

    def __init__(self, path: str, problems: list[Problem]) -> None:
        self.problems = sorted(problems, key=lambda problem: problem.line)
        shown = [f"{path}:{p.line}: {p.text}" for p in self.problems[: self.kShown]]
        if len(self.problems) > self.kShown:
            shown.append(f"… and {len(self.problems) - self.kShown} more")
        super().__init__("the topology cannot be used:\n  " + "\n  ".join(shown))


@dataclasses.dataclass
class Link:
    """One end of a cable as its node's record tells it."""

    line: int
    remote_id: str
    remote_port: int
    width: str | None = None  # "4x"
    speed: str | None = None  # "EDR"


@dataclasses.dataclass
class Node:
    """A switch, HCA or router. Ports are numbered from 1; `links` has the cabled ones."""

    kind: str
    ports: int
    ident: str
    description: str | None
    line: int
    guid: int | None = None
    guid_line: int = 0
    system_guid: int | None = None
    vendor: int | None = None
    device: int | None = None
    enhanced_port0: bool = False
    links: dict[int, Link] = dataclasses.field(default_factory=dict)

    def port_guid(self, port: int) -> int | None:
        """What the simulator will give the port: it counts up from the node's GUID."""
        if self.guid is None:
            return None
        return self.guid if self.kind == SWITCH else self.guid + port


@dataclasses.dataclass(frozen=True)
class Host:
    """A machine: the HCAs whose descriptions begin with its name."""

    name: str
    hcas: tuple[Node, ...]

    def linked_ports(self) -> int:
        return sum(len(hca.links) for hca in self.hcas)


@dataclasses.dataclass
class Topology:
    """All nodes in the order of the file."""

    path: str
    nodes: list[Node]

    def count(self, kind: str) -> int:
        return sum(node.kind == kind for node in self.nodes)

    def by_id(self) -> dict[str, Node]:
        return {node.ident: node for node in self.nodes}

    def hosts(self) -> list[Host]:
        """The hosts in the order in which their first HCA appears."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            if node.kind != HCA or node.description is None:
                continue
            if node.description.startswith(_NOT_A_HOST):
                continue
            found.setdefault(node.description.split()[0], []).append(node)
        return [Host(name, tuple(hcas)) for name, hcas in found.items()]


def load(path: str) -> Topology:
    """Reads, parses and validates a topology file; TopologyError names every mistake."""
    from . import topology_check, topology_parse  # both use the types of this module

    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise FabricError(f"cannot read the topology {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise FabricError(f"the topology {path} is not text: {error}") from None
    topology, problems = topology_parse.parse(path, text)
    # Links of a record that was not understood look broken too: first things first.
    problems = problems or topology_check.check(topology)
    if problems:
        raise TopologyError(path, problems)
    return topology
