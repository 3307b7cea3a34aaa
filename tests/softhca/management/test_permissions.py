# SPDX-License-Identifier: BSD-3-Clause
"""Who may open ports for management: root, as on a host, unless the fabric is told otherwise."""
import errno
import os
import unittest

from support import SOFTHCA, ManagementTest

USER = ("setpriv", "--reuid", 1000, "--regid", 1000, "--clear-groups")
#: Opens the first port by libibumad. Prints what that returned, if negative, and errno.
OPEN = """
import ctypes
umad = ctypes.CDLL(None, use_errno=True)
fd = umad.umad_open_port(None, 0)
print(min(fd, 0), 0 if fd >= 0 else ctypes.get_errno())
"""
#: libibumad returns the same for every reason.
DENIED = f"{-errno.EIO} {errno.EACCES}\n"
OPENED = "0 0\n"
NODES = 6  # two hosts, four switches


@unittest.skipUnless(
    os.geteuid() == 0, "needs a second user on a fabric that was started without root"
)
class Permissions(ManagementTest):
    options = ("--hosts", 2)

    def tearDown(self) -> None:
        self.fault("umad", "restricted")

    def opens(self, *user: object) -> str:
        return self.run_on("H2", *user, "/usr/bin/python3", "-c", OPEN)

    def nodes(self, *user: object) -> int:
        return self.fabric.run("H2", *user, "saquery", "NR").out.count("NodeRecord dump")

    def test_by_default_the_devices_are_roots(self) -> None:
        self.assertEqual(self.opens(), OPENED)
        self.assertEqual(self.nodes(), NODES)
        self.assertEqual(self.opens(*USER), DENIED)
        self.assertNotEqual(self.fabric.run("H2", *USER, "saquery", "NR").status, 0)
        # Verbs are for everybody.
        devices = self.run_on("H2", *USER, "ibv_devinfo")
        self.assertRegex(devices, r"PORT_ACTIVE")

    def test_they_can_be_opened_to_everybody_and_closed_again(self) -> None:
        self.assertEqual(self.fault("umad", "open"), "umad open\n")
        self.assertEqual(self.opens(*USER), OPENED)
        self.assertEqual(self.nodes(*USER), NODES)
        self.assertEqual(self.fault("umad", "restricted"), "umad restricted\n")
        self.assertEqual(self.opens(*USER), DENIED)
        self.assertEqual(self.opens(), OPENED)

    def test_other_words_are_refused_and_change_nothing(self) -> None:
        for words in ((), ("shut",), ("open", "wide")):
            done = self.fabric.run("H1", SOFTHCA, "fault", "umad", *words)
            self.assertEqual(done.status, 2, f"{words}: {done.all}")
            self.assertIn("umad: wants restricted or open", done.err)
        self.assertEqual(self.opens(*USER), DENIED)


if __name__ == "__main__":
    unittest.main(verbosity=2)
