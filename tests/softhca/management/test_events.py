# SPDX-License-Identifier: BSD-3-Clause
"""ibv_asyncwatch, unmodified, sees what happens to its port, and nothing of other ports."""
import re
import unittest

from support import Background, ManagementTest


class Events(ManagementTest):
    options = ("--hosts", 2)

    def test_each_change_of_a_port_is_an_event_there(self) -> None:
        with Background(self.fabric, "H2", "ibv_asyncwatch") as here, Background(
            self.fabric, "H1", "ibv_asyncwatch"
        ) as there:
            for watcher in (here, there):
                self.eventually(lambda w=watcher: "async event FD" in w.output, "it watches")

            def happens(name: str, *words: object) -> None:
                before = here.output.count(name)
                self.fault(*words)
                self.eventually(lambda: here.output.count(name) > before, f"{name}: {here.output}")

            happens("IBV_EVENT_PORT_ERR", "link", "H2", "down")
            self.eventually(lambda: self.ports()["H2"][0] == "DOWN", "the port is down")
            happens("IBV_EVENT_PORT_ACTIVE", "link", "H2", "up")
            happens("IBV_EVENT_PKEY_CHANGE", "pkey", "H2", 3, "0x8123")
            happens("IBV_EVENT_GID_CHANGE", "gid", "H2", 1, "0x1234")
            happens("IBV_EVENT_CLIENT_REREGISTER", "reregister", "H2")
            seen = self.run_on("H2", "ibv_devinfo", "-v")
            self.assertRegex(seen, r"GID\[\s*1\]:\s*fe80:0000:0000:0000:0000:0000:0000:1234")

            before = here.output.count("IBV_EVENT_LID_CHANGE")
            done = self.sm("lid", "H2", 77)
            self.assertEqual(done.status, 0, done.all)
            self.eventually(
                lambda: here.output.count("IBV_EVENT_LID_CHANGE") > before, "the LID changes"
            )
            self.eventually(
                lambda: here.output.count("IBV_EVENT_CLIENT_REREGISTER") >= 2,
                "a new subnet manager has clients register again",
            )
            self.assertEqual(self.lid("H2"), 77)
            self.assertRegex(self.run_on("H2", "ibstat"), r"Base lid: 77\n")
            self.assertFalse(
                re.search(r"PORT_ERR|LID_CHANGE|PKEY_CHANGE|GID_CHANGE", there.output),
                f"H1's port has not changed: {there.output}",
            )


if __name__ == "__main__":
    unittest.main(verbosity=2)
