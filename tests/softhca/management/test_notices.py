# SPDX-License-Identifier: BSD-3-Clause
"""Reports of the real subnet administrator to programs on hosts that asked for them."""
import re
import time
import unittest

from support import Background, ManagementTest
from fabric import BUILD

PROGRAM = BUILD / "tests" / "softhca" / "sa_notices"
IN_SERVICE, OUT_OF_SERVICE, LINK_STATE_CHANGED = 64, 65, 128
GID_OF_H5 = "fe80000000000000" "5b00000000000501"
#: How long OpenSM waits for the answer to a report before it sends it again.
ANSWER_MS = 3000


class Notices(ManagementTest):
    """H5's port goes and comes. Each test subscribes from hosts of its own: the administrator keeps
    the subscriptions of programs that have ended, and sends what they left unanswered again."""

    options = ("--hosts", 5, "-t", ANSWER_MS)

    def setUp(self) -> None:
        self.fault("gsi", "clear")
        self.link("up")

    def link(self, state: str) -> None:
        self.fault("link", "H5", state)
        wanted = "ACTIVE" if state == "up" else "DOWN"
        self.eventually(lambda: self.ports()["H5"][0] == wanted, f"H5's port is {wanted}")

    def subscriber(self, host: str, *words: object) -> Background:
        return Background(self.fabric, host, PROGRAM, *words)

    def subscribed(self, watcher: Background, *traps: int) -> None:
        for trap in traps:
            self.eventually(lambda t=trap: f"subscribed {t}\n" in watcher.output, watcher.output)

    @staticmethod
    def reports(watcher: Background, trap: int, gid: str = "[0-9a-f]{32}") -> list[str]:
        """The transaction of each report of that trap, in the order they came."""
        return re.findall(rf"^trap {trap} lid \d+ gid {gid} tid ([0-9a-f]+)$",
                          watcher.output, re.MULTILINE)

    def test_a_port_that_goes_and_comes_is_reported_once_to_who_answers(self) -> None:
        with self.subscriber("H2", IN_SERVICE, OUT_OF_SERVICE, LINK_STATE_CHANGED) as watcher:
            self.subscribed(watcher, IN_SERVICE, OUT_OF_SERVICE, LINK_STATE_CHANGED)
            self.assertIn("InformInfo", self.run_on("H2", "saquery", "IIR"))
            self.link("down")
            self.eventually(lambda: self.reports(watcher, OUT_OF_SERVICE, GID_OF_H5),
                            "H5's port is reported out of service")
            self.eventually(lambda: self.reports(watcher, LINK_STATE_CHANGED),
                            "the switch's trap is passed on")
            before = len(self.reports(watcher, IN_SERVICE, GID_OF_H5))
            self.link("up")
            self.eventually(lambda: len(self.reports(watcher, IN_SERVICE, GID_OF_H5)) > before,
                            "H5's port is reported in service")
            # An answer that had not reached OpenSM would bring the report again.
            time.sleep(1.5 * ANSWER_MS / 1000)
            for trap in (IN_SERVICE, OUT_OF_SERVICE):
                seen = self.reports(watcher, trap, GID_OF_H5)
                self.assertEqual(len(seen), len(set(seen)), watcher.output)
            self.assertFalse(watcher.ended(), watcher.output)

    def test_a_report_without_an_answer_is_sent_again(self) -> None:
        with self.subscriber("H3", "--silent", OUT_OF_SERVICE) as watcher:
            self.subscribed(watcher, OUT_OF_SERVICE)
            self.link("down")

            def repeated() -> bool:
                seen = self.reports(watcher, OUT_OF_SERVICE, GID_OF_H5)
                return len(seen) > len(set(seen))

            self.eventually(repeated, "the same transaction comes twice")

    def test_who_has_left_gets_no_more(self) -> None:
        with self.subscriber("H1", OUT_OF_SERVICE) as stays, self.subscriber(
            "H4", "--leave-after", 1, OUT_OF_SERVICE
        ) as leaves:
            for watcher in (stays, leaves):
                self.subscribed(watcher, OUT_OF_SERVICE)
            self.link("down")
            self.eventually(lambda: f"unsubscribed {OUT_OF_SERVICE}\n" in leaves.output,
                            "one has had a report and left")
            self.eventually(lambda: self.reports(stays, OUT_OF_SERVICE), "the other has had it too")
            self.link("up")
            before = len(set(self.reports(stays, OUT_OF_SERVICE)))
            self.link("down")
            self.eventually(lambda: len(set(self.reports(stays, OUT_OF_SERVICE))) > before,
                            "who has not left goes on getting reports")
            time.sleep(1)  # whatever else this sweep has to report
            self.assertEqual(len(set(self.reports(leaves, OUT_OF_SERVICE))), 1, leaves.output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
