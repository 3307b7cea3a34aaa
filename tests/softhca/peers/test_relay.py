# SPDX-License-Identifier: BSD-3-Clause
"""Programs that may not use process_vm_writev: at all, on one side or on both, or not to one another."""
import unittest

from fabric import BUILD, Fabric

WITHOUT = [BUILD / "tests" / "softhca" / "without_process_vm"]
# Root without capabilities may not touch the memory of a root that has them.
WITHOUT_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
SAID = "data goes through shared memory instead"


class RelayTest(unittest.TestCase):
    fabric: Fabric

    @classmethod
    def setUpClass(cls) -> None:
        cls.fabric = Fabric("--hosts", 3, name="relay").__enter__()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.fabric.down()

    def pair(self, program: list[object], filtered: str) -> str:
        """Runs it on H1 and H3 with the filter for the server, the client or both."""
        server = [*(WITHOUT if filtered != "client" else []), *program]
        client = [*(WITHOUT if filtered != "server" else []), *program, "H1"]
        return self.run_pair(server, client, filtered)

    def run_pair(self, server: list[object], client: list[object], refused: str) -> str:
        done, served = self.fabric.pair(("H1", "H3"), server, client)
        self.assertEqual(done.status, 0, done.all + served.all)
        self.assertEqual(served.status, 0, served.all)
        self.assertIn(SAID, served.out if refused == "server" else done.err)
        return done.out

    def from_one_without_capabilities(self, *program: object) -> None:
        """The server does not know before the first message that the client may not write to it."""
        with self.subTest(program=program):
            self.run_pair([*program], [*WITHOUT_CAPABILITIES, *program, "H1"], "client")

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
        # A datagram that is lost is not sent again.
        self.each("ibv_ud_pingpong", "-c", "-n", "100", "-g", "0")

    def test_a_receiver_that_sleeps(self) -> None:
        for program in (("ibv_rc_pingpong",), ("ibv_ud_pingpong", "-g", "0")):
            self.from_one_without_capabilities(*program, "-e", "-c", "-n", "100")


class AllPrograms(RelayTest):
    def test_events(self) -> None:
        self.each("ibv_rc_pingpong", "-e", "-c", "-n", "100")

    def test_writes_reads_and_atomics(self) -> None:
        for program in ("ib_write_bw", "ib_read_bw", "ib_atomic_bw"):
            self.each(program, "-n", "100", "-F")

    def test_a_target_that_calls_no_verbs(self) -> None:
        for program in ("ib_write_bw", "ib_read_bw", "ib_atomic_bw"):
            self.from_one_without_capabilities(program, "-n", "100", "-F")


if __name__ == "__main__":
    unittest.main(verbosity=2)
