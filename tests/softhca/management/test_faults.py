# SPDX-License-Identifier: BSD-3-Clause
"""`softhca fault` against programs that nobody here wrote, and subnet managers that come and go."""
import re
import tempfile
import unittest

from support import SOFTHCA, Background, ManagementTest


class MadFaults(ManagementTest):
    def setUp(self) -> None:
        self.fault("gsi", "clear")

    def tables(self) -> int:
        # The SA's end of a transfer waits two seconds before it sends a segment again.
        return self.run_on("H2", "saquery", "-t", 20000, "NR").count("NodeRecord dump")

    def hits(self, rule: str) -> int:
        found = re.search(rf"^{re.escape(rule)}: matched \d+, hit (\d+)$",
                          self.fault("gsi", "list"), re.MULTILINE)
        self.assertIsNotNone(found)
        return int(found.group(1))

    def test_lost_segments_of_a_table_are_sent_again(self) -> None:
        self.fault("gsi", "drop", "--class", "sa", "--responses", "--nth", 2)
        self.assertEqual(self.tables(), 7)
        self.assertEqual(self.hits("gsi drop --class sa --responses --nth 2"), 1)

    def test_a_rule_names_who_is_hit(self) -> None:
        target = self.lid("H3")
        with Background(self.fabric, "H3", "ibping", "-S"):
            ping = ("ibping", "-c", 2, "-t", 300, target)
            self.eventually(lambda: self.fabric.run("H1", *ping).status == 0, "it answers")
            self.fault("gsi", "drop", "--src", "H1", "--dst", "H3", "--class", "0x32")
            self.assertIn("100% packet loss", self.fabric.run("H1", *ping).all)
            self.assertIn("0% packet loss", self.run_on("H2", *ping))
            self.fault("gsi", "clear")
            self.assertIn(" 0% packet loss", self.run_on("H1", *ping))

    def test_duplicates_and_delays_do_not_disturb(self) -> None:
        self.fault("gsi", "duplicate", "--class", "sa")
        self.fault("gsi", "delay", "--class", "sa", "--delay", 30)
        self.assertEqual(self.tables(), 7)

    def test_a_silent_busy_slow_and_rationed_subnet_administrator(self) -> None:
        self.fault("sa", "silent")
        self.assertNotEqual(self.fabric.run("H2", "saquery", "-t", 100, "NR").status, 0)
        self.fault("sa", "clear")
        self.fault("sa", "busy", "--count", 1)
        self.assertNotEqual(self.fabric.run("H2", "saquery", "NR").status, 0)
        self.assertEqual(self.tables(), 7, "the next one is served")
        self.fault("sa", "clear")
        self.fault("sa", "slow", 200)
        self.assertEqual(self.tables(), 7)
        self.fault("sa", "clear")
        self.fault("sa", "rate", 50)
        self.assertEqual(self.tables(), 7)

    def test_wrong_words_are_refused(self) -> None:
        for words in (("gsi", "lose"), ("sa", "slow"), ("gsi", "drop", "--src", "H9"),
                      ("link", "H9", "down"), ("link", "H2", "sideways"), ("pkey", "H2", "1")):
            done = self.fabric.run("H1", SOFTHCA, "fault", *words)
            self.assertEqual(done.status, 2, f"{words}: {done.all}")
            self.assertIn("softhca: fault:", done.err)


class SubnetManagers(ManagementTest):
    def master(self) -> int:
        """The LID of the subnet manager that H2 is told, 0 when none answers."""
        found = re.search(r"sm lid (\d+) .* SMINFO_MASTER", self.fabric.run("H2", "sminfo").out)
        return int(found.group(1)) if found else 0

    def test_a_standby_takes_over_when_the_master_is_killed(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf, Background(
            self.fabric, "H2", "ibv_asyncwatch"
        ) as watcher:
            conf.write("sminfo_polling_timeout 500\npolling_retry_number 2\n")
            conf.flush()
            done = self.sm("--on", "H3", "start", "-F", conf.name)
            self.assertEqual(done.status, 0, done.all)
            self.assertIn("it stands by", done.out)
            self.assertEqual(self.master(), self.lid("H1"))
            states = re.findall(r"SMState\.+(\d)", self.run_on("H2", "saquery", "SMIR"))
            self.assertEqual(sorted(states)[-1], "3", "one is master")
            self.assertEqual(len(states), 2)
            lids = {host: self.lid(host) for host in ("H1", "H2", "H3")}
            self.assertEqual(self.sm("kill").status, 0)
            self.eventually(lambda: self.master() == lids["H3"], "H3's is the master now")
            self.assertEqual({host: self.lid(host) for host in lids}, lids, "LIDs stay")
            self.eventually(lambda: "IBV_EVENT_SM_CHANGE" in watcher.output, watcher.output)
            self.eventually(lambda: "CLIENT_REREGISTER" in watcher.output, watcher.output)
            self.assertEqual(self.run_on("H2", "saquery", "NR").count("NodeRecord dump"), 7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
