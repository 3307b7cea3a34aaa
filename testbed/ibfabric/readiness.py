# SPDX-License-Identifier: BSD-3-Clause
"""Is the fabric ready for use: OpenSM's sweep complete, ports ACTIVE, and all published?"""

from __future__ import annotations

from pathlib import Path

from . import ports
from .daemons import Daemon, kOpensmLog
from .spec import Spec
from .state import FabricDir
from .topology import Topology

_NO_AGENT = "softhca's agent has not published the fabric"


def subnet_up(log: Path, since: int) -> bool:
    """Has OpenSM written, after `since` bytes of its log, that a sweep is complete? Ports are
    ACTIVE a little earlier, when it does not answer path queries yet."""
    return logged(log, since, "SUBNET UP")


def logged(log: Path, since: int, text: str) -> bool:
    """Does a log hold `text` after its first `since` bytes?"""
    return log.exists() and text in ports.tail(log, since)


class Readiness:
    """What the active hosts wait for."""

    def __init__(self, place: FabricDir, what: Spec, topology: Topology) -> None:
        self.place = place
        self.spec = what
        self.by_id = topology.by_id()
        active = set(what.hosts)
        self.hcas = {
            hca.ident: host.name
            for host in topology.hosts()
            if host.name in active
            for hca in host.hcas
        }

    @property
    def first_node(self) -> str:
        """The id of the first host's first HCA."""
        return next(iter(self.hcas))

    def port_guid(self, host: str, number: int) -> int:
        """The GUID of a port of a host's first HCA, as the simulator makes it."""
        for ident, name in self.hcas.items():
            node = self.by_id[ident]
            if name == host and number in node.links and node.guid is not None:
                return node.guid + number
        raise ValueError(f"{host} has no port {number} with a cable on its first HCA")

    def missing(self, ibsim: Daemon) -> list[str]:
        """What is not ready yet, for people; empty when all is."""
        if not self.spec.opensm:
            return [] if self.spec.softhca is None or self.published() is not None else [_NO_AGENT]
        if not subnet_up(self.place.log / kOpensmLog, 0):
            return ["the subnet manager has not finished its sweep"]
        seen = ports.simulator_ports(ibsim)
        waiting = [
            f"{host} port {number} ({ident}) is {port.state if port is not None else 'unknown'}"
            for ident, host in self.hcas.items()
            for number in sorted(self.by_id[ident].links)
            if (port := seen.get((ident, number))) is None or port.state != "Active"
        ]
        if waiting or self.spec.softhca is None:
            return waiting
        # The agent looks at intervals; hosts see what it published last.
        published = self.published()
        if published is None:
            return [_NO_AGENT]
        return ports.unpublished(self.wanted(), published)

    def published(self) -> ports.Published | None:
        assert self.spec.softhca is not None
        return ports.published_ports(self.spec.softhca, self.place.softhca)

    def wanted(self) -> dict[tuple[str, int], int]:
        """How many HCAs of each active host have that port number linked."""
        wanted: dict[tuple[str, int], int] = {}
        for ident, host in self.hcas.items():
            for number in self.by_id[ident].links:
                wanted[host, number] = wanted.get((host, number), 0) + 1
        return wanted
