# SPDX-License-Identifier: BSD-3-Clause
"""Programs that may not use process_vm_writev, on one side or on both."""
import unittest

from fabric import BUILD, Fabric

WITHOUT = [BUILD / "tests" / "softhca" / "without_process_vm"]
SAID = "data goes through shared memory instead"


class RelayTest(unittest.TestCase):
    fabric: Fabric

    @classmethod
    def setUpClass(cls) -> None:
        # Only one of two processes under the filter: the other learns later that it has to help.
        cls.fabric = Fabric("--hosts", 3, name="relay").__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def pair(self, program: list[object], filtered: str) -> str:
        """Runs it on H1 and H3 with the filter for the server, the client or both."""
        server = [*(WITHOUT if filtered != "client" else []), *program]
        client = [*(WITHOUT if filtered != "server" else []), *program, "H1"]
        done, served = self.fabric.pair(("H1", "H3"), server, client)
        self.assertEqual(done.status, 0, done.all + served.all)
        self.assertEqual(served.status, 0, served.all)
        self.assertIn(SAID, served.out if filtered == "server" else done.err)
        return done.out

    def each(
        self, *program: object, sides: tuple[str, ...] = ("client", "server", "both")
    ) -> None:
        for filtered in sides:
            with self.subTest(filtered=filtered, program=program):
                out = self.pair(list(program), filtered)
                if "pingpong" in str(program[0]):
                    self.assertRegex(out, r"\d+ bytes in")
                    self.assertNotIn("invalid data", out)

class Short(RelayTest):
    def test_send_and_receive(self) -> None:
        self.each("ibv_rc_pingpong", "-c", "-n", "100")

    def test_datagrams(self) -> None:
        # A datagram to one that has no relay yet is lost, and this program does not send again: so
        # only with both, who know from the start.
        self.each("ibv_ud_pingpong", "-c", "-n", "100", "-g", "0", sides=("both",))


class AllPrograms(RelayTest):
    def test_events(self) -> None:
        self.each("ibv_rc_pingpong", "-e", "-c", "-n", "100")

    def test_writes_reads_and_atomics(self) -> None:
        for program in ("ib_write_bw", "ib_read_bw", "ib_atomic_bw"):
            self.each(program, "-n", "100", "-F")


if __name__ == "__main__":
    unittest.main(verbosity=2)
