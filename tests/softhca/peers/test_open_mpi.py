# SPDX-License-Identifier: BSD-3-Clause
"""Open MPI's own stacks over the emulated HCA, with the programs of tests/mpi on four hosts.

Data must go over InfiniBand only: no stack may use TCP or shared memory between ranks, and the
counters of the ports say that it went there.
"""
import unittest

from fabric import BUILD
from peers import PeerTest

PROGRAMS = BUILD / "tests" / "mpi"

#: ob1 over the openib BTL, whose connections udcm makes: UD datagrams, then RC.
OPENIB = [
    *("--mca", "pml", "ob1", "--mca", "btl", "openib,self", "--mca", "osc", "^ucx"),
    # Open MPI 4 leaves InfiniBand to UCX unless it is told otherwise.
    *("--mca", "btl_openib_allow_ib", "1", "--mca", "btl_openib_cpc_include", "udcm"),
]
UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "-x", "UCX_NET_DEVICES=softhca0:1"]
UCX_RC = [*UCX, "-x", "UCX_TLS=rc_verbs,ud_verbs,self", "-x", "UCX_ATOMIC_MODE=device"]
UCX_UD = [*UCX, "-x", "UCX_TLS=ud_verbs,self"]

#: Sizes that exercise inline, eager and rendezvous paths, yet end soon.
ALL_PROGRAMS = {
    "ring": ["1"],
    "all_to_all": ["1", "65536"],
    "wildcard": ["30"],
    "rma": ["1"],
    "threads": ["3", "3"],
}
#: The same for 64 ranks.
ALL_PROGRAMS_64 = {
    "ring": ["1"],
    "all_to_all": ["1", "4096"],
    "wildcard": ["5", "1"],
    "rma": ["1", "512"],
    "threads": ["2", "2"],
}


class OpenMpiTest(PeerTest):
    def job(
        self, stack: list[str], ranks: int, program: str, arguments: list[str], seconds: int
    ) -> None:
        counter = "ud_sent" if stack is UCX_UD else "rc_sent"
        before = self.port_counters(counter)
        rc_before = self.port_counters("rc_sent")
        done = self.fabric.mpirun(
            "-n", ranks, *stack, PROGRAMS / f"mpi_{program}", *arguments, seconds=seconds
        )
        self.assertEqual(done.status, 0, done.all)
        self.assertRegex(
            done.out, rf"{program}: {ranks} ranks, [1-9]\d* messages, [1-9]\d* bytes, all right"
        )
        # At least one message of each rank, and none by RC where only UD is allowed.
        self.assert_grew(before, self.port_counters(counter), ranks // 4)
        if stack is UCX_UD:
            self.assertEqual(self.port_counters("rc_sent"), rc_before)


class Short(OpenMpiTest):
    """What the gate runs."""

    def test_openib_with_16_ranks(self) -> None:
        self.job(OPENIB, 16, "all_to_all", ["1", "4096"], 120)

    def test_ucx_rc_with_16_ranks(self) -> None:
        self.job(UCX_RC, 16, "all_to_all", ["1", "4096"], 120)


class AllPrograms(OpenMpiTest):
    def all(self, stack: list[str], ranks: int, programs: dict[str, list[str]]) -> None:
        for program, arguments in programs.items():
            with self.subTest(program=program, ranks=ranks):
                self.job(stack, ranks, program, arguments, 600)

    def test_openib_with_16_ranks(self) -> None:
        self.all(OPENIB, 16, ALL_PROGRAMS)

    def test_ucx_rc_with_16_ranks(self) -> None:
        self.all(UCX_RC, 16, ALL_PROGRAMS)

    def test_ucx_ud_with_16_ranks(self) -> None:
        self.all(UCX_UD, 16, ALL_PROGRAMS)

    def test_openib_with_64_ranks(self) -> None:
        self.all(OPENIB, 64, ALL_PROGRAMS_64)

    def test_ucx_rc_with_64_ranks(self) -> None:
        self.all(UCX_RC, 64, ALL_PROGRAMS_64)

    def test_ucx_ud_with_64_ranks(self) -> None:
        self.all(UCX_UD, 64, ALL_PROGRAMS_64)


if __name__ == "__main__":
    unittest.main(verbosity=2)
