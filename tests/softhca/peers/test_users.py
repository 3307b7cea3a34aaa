# SPDX-License-Identifier: BSD-3-Clause
"""Users without privileges: on a fabric of their own, and several on one that root has started."""
import os
import unittest

from fabric import Fabric

PINGPONG = ["ibv_rc_pingpong", "-c", "-n", "100"]
ROOT = os.geteuid() == 0


def as_user(uid: int) -> list[object]:
    return ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]


class UsersTest(unittest.TestCase):
    def pingpong(self, fabric: Fabric, server: list[object], client: list[object]) -> str:
        """Both ends check what they receive. Returns what they said on stderr."""
        done, served = fabric.pair(
            ("H1", "H2"), [*server, *PINGPONG], [*client, *PINGPONG, "H1"]
        )
        for end in (done, served):
            self.assertEqual(end.status, 0, done.all + served.all)
            self.assertRegex(end.out, r"819200 bytes in")
            self.assertNotIn("invalid data", end.out)
        return done.all + served.all


class Users(UsersTest):
    def test_on_a_fabric_of_ones_own(self) -> None:
        # As an ordinary user when root runs the tests; as whoever runs them otherwise.
        prefix = tuple(as_user(65534)) if ROOT else ()
        with Fabric("--hosts", 2, name="own", prefix=prefix) as fabric:
            self.assertNotIn("refuses", self.pingpong(fabric, [], []))

    @unittest.skipUnless(ROOT, "needs a second user on a fabric that was started without root")
    def test_two_users_and_root_on_one_fabric(self) -> None:
        with Fabric("--hosts", 2, name="users") as fabric:
            # The kernel lets no user into another's memory; so the data takes the other way.
            said = self.pingpong(fabric, as_user(1000), as_user(1001))
            self.assertIn("refuses process_vm_writev", said)
            self.assertIn("refuses process_vm_writev", self.pingpong(fabric, as_user(1000), []))
            self.pingpong(fabric, [], as_user(1000))
            alone = self.pingpong(fabric, as_user(1000), as_user(1000))
            self.assertNotIn("refuses", alone)

    @unittest.skipUnless(ROOT, "needs a second user on a fabric that was started without root")
    def test_pinned_memory_is_charged_as_the_kernel_does(self) -> None:
        with Fabric("--hosts", 2, name="pinned") as fabric:
            limited = ["prlimit", "--memlock=65536:65536"]
            long = ["ibv_rc_pingpong", "-s", "100000", "H1"]
            done = fabric.run("H2", *limited, *as_user(1000), *long)
            self.assertNotEqual(done.status, 0)
            self.assertIn("Couldn't register MR", done.err)
            # Root's CAP_IPC_LOCK exempts it: it fails later, for there is no server.
            done = fabric.run("H2", *limited, *long)
            self.assertNotIn("Couldn't register MR", done.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
