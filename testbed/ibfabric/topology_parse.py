# SPDX-License-Identifier: BSD-3-Clause
"""Reads the text that ibnetdiscover prints into a Topology, collecting mistakes by line."""

from __future__ import annotations

import re

from .topology import HCA, ROUTER, SWITCH, Link, Node, Problem, Topology

_KINDS = {"Switch": SWITCH, "Ca": HCA, "Hca": HCA, "Rt": ROUTER}
_GUID_OF = {"switchguid": SWITCH, "caguid": HCA, "rtguid": ROUTER}

_ATTRIBUTE = re.compile(r"(vendid|devid|sysimgguid|switchguid|caguid|rtguid)\s*=\s*(\S*)(.*)")
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)(\([0-9a-fA-FxX]+\))?")
_HEADER = re.compile(r'(Switch|Ca|Hca|Rt)\s+(\d+)\s+"([^"]*)"\s*(?:#\s*(.*))?')
_DESCRIPTION = re.compile(r'"([^"]*)"\s*(.*)')
# [1](guid) "id"[2](guid) # comment; "[ext 3]" is the number printed on a chassis' faceplate.
_PORT = re.compile(
    r"\[(\d+)\](?:\[ext \d+\])?(?:\(([0-9a-fA-FxX]+)\))?\s*"
    r'"([^"]*)"\s*\[(\d+)\](?:\[ext \d+\])?\s*(?:\(([0-9a-fA-FxX]+)\))?\s*(?:#\s*(.*))?'
)
_RATE = re.compile(r"lid\s+\d+\s+(\d+x)(\S+)\s*$")
_NODE = re.compile(r"(Switch|Ca|Hca|Rt)\b")
# Printed between nodes when ibnetdiscover groups by chassis; they carry no links.
_IGNORED = re.compile(r"(Chassis\b|Non-Chassis Nodes)")
_SIMULATOR = re.compile(r"(module|include|do|width|speed|extspeed|pdebug|hcaguids)\b")


class _Parser:
    def __init__(self, path: str) -> None:
        self.topology = Topology(path, [])
        self.problems: list[Problem] = []
        self.attributes: dict[str, tuple[int, int]] = {}  # name -> value, line
        self.node: Node | None = None
        self.bad_record = False  # its node line was refused; its ports would be too

    def complain(self, line: int, text: str) -> None:
        self.problems.append(Problem(line, text))

    def feed(self, number: int, line: str) -> None:
        text = line.strip()
        if not text:
            self.end_of_record()
        elif text.startswith("#") or _IGNORED.match(text):
            return
        elif text.startswith("["):
            self.port(number, text)
        elif _ATTRIBUTE.match(text):
            self.attribute(number, text)
        elif _NODE.match(text):
            self.header(number, text)
        elif _SIMULATOR.match(text):
            self.complain(
                number,
                f"'{text.split()[0]}' is a command of the simulator, not part of "
                "ibnetdiscover's format: remove the line",
            )
        else:
            self.complain(number, f"not understood: {text[:60]!r}")

    def end_of_record(self) -> None:
        for name, (_, line) in self.attributes.items():
            self.complain(line, f"{name} belongs to no node: no node line follows it")
        self.attributes = {}
        self.node = None
        self.bad_record = False

    def separate(self, number: int, what: str) -> None:
        """A new record must be set apart; the simulator swallows its first line otherwise."""
        if self.node is not None:
            self.complain(
                number,
                f"{what} follows the record of {self.node.ident} (line {self.node.line}) "
                "without a blank line: put one before it",
            )
            self.node = None

    def attribute(self, number: int, text: str) -> None:
        self.separate(number, "a new node")
        match = _ATTRIBUTE.fullmatch(text)
        assert match is not None
        name, value = match[1], _NUMBER.fullmatch(match[2])
        if value is None:
            self.complain(number, f"{name} needs a number, not {match[2]!r}")
            return
        if name in self.attributes:
            self.complain(number, f"{name} appears twice for one node")
        self.attributes[name] = (int(value[1], 0), number)

    def header(self, number: int, text: str) -> None:
        self.separate(number, "a new node")
        match = _HEADER.fullmatch(text)
        if match is None:
            self.complain(number, "a node line reads: KIND PORTS \"ID\" # \"DESCRIPTION\"")
            self.attributes = {}
            self.bad_record = True
            return
        kind = _KINDS[match[1]]
        description, rest = None, match[4] or ""
        quoted = _DESCRIPTION.match(rest)
        if quoted is not None:
            description, rest = quoted[1].strip() or None, quoted[2]
        node = Node(kind, int(match[2]), match[3], description, number)
        node.enhanced_port0 = "enhanced port 0" in rest
        self.take_attributes(node)
        self.node = node
        self.topology.nodes.append(node)

    def take_attributes(self, node: Node) -> None:
        for name, (value, line) in self.attributes.items():
            if name == "vendid":
                node.vendor = value
            elif name == "devid":
                node.device = value
            elif name == "sysimgguid":
                node.system_guid = value
            elif _GUID_OF[name] == node.kind:
                node.guid, node.guid_line = value, line
            else:
                self.complain(line, f"{name} stands before a {node.kind} (line {node.line})")
        self.attributes = {}

    def port(self, number: int, text: str) -> None:
        if self.bad_record:
            return
        if self.node is None:
            self.complain(number, "a port line without a node line before it in its record")
            return
        match = _PORT.fullmatch(text)
        if match is None:
            self.complain(
                number, 'a port line reads: [PORT] "REMOTE ID"[REMOTE PORT] # … lid N 4xEDR'
            )
            return
        port = int(match[1])
        if port in self.node.links:
            first = self.node.links[port].line
            self.complain(number, f"port {port} of {self.node.ident} is already in line {first}")
            return
        link = Link(number, match[3], int(match[4]))
        rate = _RATE.search(match[6] or "")
        if rate is not None:
            link.width, link.speed = rate[1], rate[2]
        self.node.links[port] = link


def parse(path: str, text: str) -> tuple[Topology, list[Problem]]:
    """The topology of `text` and what could not be understood; check it before use."""
    parser = _Parser(path)
    for number, line in enumerate(text.splitlines(), start=1):
        parser.feed(number, line)
    parser.end_of_record()
    return parser.topology, parser.problems
