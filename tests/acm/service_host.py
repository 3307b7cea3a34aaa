# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the node's service share: services on hosts, users, the process behind a socket."""
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "softhca" / "management")]
from fabric import BUILD, Fabric  # noqa: E402
from support import Background, ManagementTest  # noqa: E402
from test_acm import SOCKET  # noqa: E402
from test_fabric import Client  # noqa: E402

WIREUP = BUILD / "tools" / "wireup"
#: Prints who listens at the socket, as the kernel says.
LISTENER = """\
import socket, struct, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
print(*struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)))
"""


def as_user(uid: int) -> "tuple[object, ...]":
    return ("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups")


class ServiceTest(ManagementTest):
    """Hosts on which services are started. `peer` has one from the beginning to the end, so that
    there is somebody to find."""

    peer = ""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if cls.peer:
            service = Background(cls.fabric, cls.peer, WIREUP, "serve", seconds=390)
            cls.addClassCleanup(service.__exit__)

    def serve(self, host: str, *options: object, prefix: "tuple[object, ...]" = ()) -> Background:
        return Background(self.fabric, host, *prefix, WIREUP, "serve", *options, seconds=300)

    def wait_until_served(self, host: str, service: Background) -> None:
        self.eventually(lambda: "serving softhca0" in service.output, f"{host} is served")

    def rank(self, host: str, *prefix: object) -> Client:
        client = Client(self.fabric, host, prefix=prefix)
        self.addCleanup(client.end)
        return client

    def pid_of_service(self, host: str) -> int:
        return int(self.run_on(host, "/usr/bin/python3", "-c", LISTENER, SOCKET).split()[0])

    def status_of_service(self, host: str) -> "dict[str, str]":
        """/proc/PID/status."""
        text = self.run_on(host, "cat", f"/proc/{self.pid_of_service(host)}/status")
        return dict(line.split(":", 1) for line in text.splitlines())

    def gid(self, host: str) -> str:
        return f"fe80::5b00:0:0:{host[1:]}01"


__all__ = ["BUILD", "SOCKET", "WIREUP", "Background", "Client", "Fabric", "ServiceTest", "as_user"]
