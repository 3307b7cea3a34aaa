# SPDX-License-Identifier: BSD-3-Clause
"""The addresses of IPoIB interfaces, told by a kernel that the test plays: they are answered for on
the fabric, and follow the changes."""
import select
import subprocess
import time
import unittest

from service_host import BUILD, SOCKET, ServiceTest
from fabric import TOOL

PROGRAM = BUILD / "tests" / "acm" / "acm_interfaces"
FILES = "/run/tmp"


class Interfaces(ServiceTest):
    options = ("--hosts", 2)

    def line(self) -> str:
        """The program's next one."""
        deadline = time.monotonic() + 40
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            self.assertGreater(left, 0, f"no line: {self.buffer!r}")
            if select.select([self.program.stdout], [], [], left)[0]:
                data = self.program.stdout.read(4096)
                self.assertTrue(data, f"it ended: {self.buffer!r}")
                self.buffer += data
        text, self.buffer = self.buffer.split(b"\n", 1)
        return text.decode()

    def tell(self, command: str) -> None:
        self.program.stdin.write(command.encode() + b"\n")
        self.assertEqual(self.line(), "done")

    def stop(self) -> None:
        self.program.stdin.close()
        self.program.wait(20)
        self.program.stdout.close()

    def setUp(self) -> None:
        words = ["timeout", "-k", "5", 200, TOOL, "exec", "--name", self.fabric.name, "H1", "--"]
        self.program = subprocess.Popen(
            [*map(str, words), str(PROGRAM), SOCKET],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self.buffer = b""
        self.addCleanup(self.stop)
        while self.line() != "ready":
            pass

    def acme(self, host: str, source: str, target: str) -> str:
        words = ("ib_acme", "-f", "i", "-s", source, "-d", target, "-S", SOCKET)
        return self.fabric.run(host, *words, seconds=40).all

    def endpoint(self) -> "list[str]":
        return self.run_on("H1", "ib_acme", "-e", "-S", SOCKET).splitlines()[1].split(",")

    def test_addresses_come_and_go(self) -> None:
        self.run_on("H2", "sh", "-c", f"echo 'support_ips_in_addr_cfg 1' > {FILES}/options")
        self.run_on("H2", "sh", "-c", f"echo '10.9.0.2 softhca0 1 default' > {FILES}/addresses")
        files = ("--options", f"{FILES}/options", "--addresses", f"{FILES}/addresses")
        with self.serve("H2", *files) as other:
            self.wait_until_served("H2", other)
            self.tell("add 10.9.0.1")
            self.tell(f"link {self.gid('H2')} ffff")
            self.assertNotIn("10.9.0.1", self.endpoint(), "the interface is another port's")
            self.tell(f"link {self.gid('H1')} 8123")
            self.assertNotIn("10.9.0.1", self.endpoint(), "it is in another partition")
            self.tell(f"link {self.gid('H1')} ffff")
            self.assertIn("10.9.0.1", self.endpoint())
            self.eventually(
                lambda: f"dlid: {self.lid('H1')}\n" in self.acme("H2", "10.9.0.2", "10.9.0.1"),
                "it is answered for on the fabric",
            )
            self.eventually(
                lambda: f"dlid: {self.lid('H2')}\n" in self.acme("H1", "10.9.0.1", "10.9.0.2"),
                "it is a source",
            )
            self.tell("remove 10.9.0.1")
            self.assertNotIn("10.9.0.1", self.endpoint())
            self.assertIn(
                "Cannot assign requested address", self.acme("H1", "10.9.0.1", "10.9.0.2")
            )


if __name__ == "__main__":
    unittest.main(verbosity=2)
