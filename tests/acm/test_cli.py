# SPDX-License-Identifier: BSD-3-Clause
"""`wireup resolve`, `verify`, `cache` and `doctor`: with a service, with ibacm, and with nobody."""
import json
import re
import tempfile
import unittest
from pathlib import Path

from test_service import (
    IBACM, OTHER, OURS, SOCKET, WIREUP, Background, Client, ManagementTest, PreloadedFiles, Services,
)
from fabric import Output  # noqa: E402  (test_service knows where)

LINE = re.compile(
    r"^(?P<target>\S+) dgid (?P<dgid>\S+) dlid (?P<dlid>\d+) sl (?P<sl>\d+) mtu (?P<mtu>\d+) "
    r"rate (?P<rate>\S+) pkey (?P<pkey>\S+) source (?P<source>\S+) age (?P<age>\S+) "
    r"generation (?P<generation>\S+) by (?P<by>.+?)( on (?P<place>.+))?$"
)


def gid(host: str) -> str:
    return f"fe80::5b00:0:0:{host[1:]}01"


class Cli:
    """What the tests below share; mixed into a ManagementTest."""

    def wireup(self, host: str, *words: object, seconds: int = 90) -> Output:
        return self.fabric.run(host, WIREUP, *words, seconds=seconds)

    def json(self, host: str, *words: object, status: int = 0) -> "dict[str, object]":
        done = self.wireup(host, *words, "--json")
        self.assertEqual(done.status, status, done.all)
        return json.loads(done.out)

    def resolves(self, here: str, there: str, *words: object) -> "dict[str, str]":
        """One line, for one target, when the fabric has settled."""

        def resolved() -> bool:
            nonlocal done
            done = self.wireup(here, "resolve", *words)
            return done.status == 0

        done = None
        try:
            self.eventually(resolved, f"{words} on {here}")
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {done.all}") from None
        match = LINE.match(done.out.rstrip("\n"))
        self.assertIsNotNone(match, done.all)
        path = match.groupdict()
        self.assertEqual(path["dlid"], str(self.lid(there)), done.out)
        self.assertEqual(path["dgid"], f"fe80:0000:0000:0000:5b00:0000:0000:0{there[1:]}01")
        self.assertEqual(path["pkey"], "0xffff")
        return path

    def write(self, host: str, path: str, text: str) -> None:
        self.run_on(host, "python3", "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])",
                    path, text)


class WithServices(Cli, Services):
    """ibacm on H1, wireup serve on H2 and H3. Host N is nodeN and 10.77.0.N."""

    def targets(self, there: str) -> "list[tuple[object, ...]]":
        return [
            (f"node{there[1:]}",),
            (f"10.77.0.{there[1:]}",),
            (gid(there),),
            (f"lid:{self.lid(there)}",),
            ("-l", self.lid(there)),
        ]

    def test_every_kind_of_target_from_either_service(self) -> None:
        for here, there, name in ((OURS, IBACM, "wireup serve"), (IBACM, OURS, "ibacm")):
            for words in self.targets(there):
                with self.subTest(here=here, words=words):
                    path = self.resolves(here, there, *words)
                    self.assertEqual(path["by"], name)
                    self.assertEqual(path["place"], "softhca0 port 1")
                    self.assertEqual(path["target"], str(words[-1]))

    def test_age_and_generation_come_from_the_cache(self) -> None:
        path = self.resolves(OURS, OTHER, "node3")
        self.assertEqual(path["source"], "sa_query")
        self.assertRegex(path["age"], r"^\d+(\.\d)?[smhd]")
        self.assertRegex(path["generation"], r"^[1-9]\d*$")
        self.assertEqual(self.resolves(IBACM, OURS, "node2")["source"], "ibacm")

    def test_ranges_sources_and_devices(self) -> None:
        self.resolves(OURS, IBACM, "node1")
        self.resolves(OURS, OTHER, "node3")
        done = self.json(OURS, "resolve", "node[1,3]", "10.77.0.[1-3]")
        self.assertEqual(
            [each["target"] for each in done["paths"]],
            ["node1", "node3", "10.77.0.1", "10.77.0.2", "10.77.0.3"],
        )
        self.assertTrue(all(each["ok"] for each in done["paths"]), done)
        self.assertEqual(done["paths"][0]["path"]["dlid"], self.lid(IBACM))
        self.assertEqual(done["paths"][3]["path"]["dlid"], self.lid(OURS))
        for words in (("-s", "node2"), ("-s", "10.77.0.2"), ("-d", "softhca0:1"), ("-p", "0xffff")):
            self.resolves(OURS, IBACM, *words, "node1")

    def test_a_target_that_fails_is_named_and_the_others_are_printed(self) -> None:
        self.resolves(OURS, OTHER, "node3")
        done = self.wireup(OURS, "resolve", "node3", "node77")
        self.assertEqual(done.status, 1)
        self.assertRegex(done.out, r"^node3 dgid \S+ dlid \d+ [^\n]*\n$")
        self.assertRegex(
            done.err, r"^wireup: node77: service on softhca0 port 1: wireup serve refuses name node77 "
            r"\(ETIMEDOUT\)"
        )
        done = self.json(OURS, "resolve", "lid:48000", status=1)
        self.assertEqual(done["paths"][0]["step"], "service")
        self.assertEqual(done["paths"][0]["ok"], False)

    def test_wrong_arguments(self) -> None:
        for words, text in (
            (("resolve", "node["), "a '[' without its ']'"),
            (("resolve", "lid:0"), "is not the LID of a port"),
            (("resolve", "-d", "softhca0:0", "node1"), "--device: 'device' of 'softhca0:0'"),
            (("resolve", "-d", "softhca7", "node1"), "softhca7"),
            (("resolve",), "target is required"),
            (("resolve", "-s", "node9", "node1"), "ESRCADDR"),
        ):
            done = self.wireup(OURS, *words)
            self.assertIn(done.status, (1, 2), done.all)
            self.assertIn(text, done.err)

    def test_the_cache_is_verified_shown_and_flushed(self) -> None:
        self.resolves(OURS, IBACM, "node1")
        self.resolves(OURS, OTHER, "node3")
        done = self.wireup(OURS, "verify")
        self.assertEqual(done.status, 0, done.all)
        self.assertIn("multicast paths can be trusted: yes", done.out)
        verified = self.json(OURS, "verify", "--all")["caches"][0]
        self.assertEqual((verified["differ"], verified["unanswered"]), (0, 0))
        self.assertGreaterEqual(verified["checked"], 2)
        self.assertTrue(all(each["inward"]["same"] for each in verified["paths"]))

        shown = self.json(OURS, "cache", "show")["caches"][0]
        lids = {each["path"]["dlid"] for each in shown["entries"]}
        self.assertLessEqual({self.lid(IBACM), self.lid(OTHER)}, lids)
        self.assertEqual(shown["entries_count"], len(shown["entries"]))
        size = self.json(OURS, "cache", "size")["caches"][0]
        self.assertGreaterEqual(size["bytes"], size["capacity"] * 64)
        self.assertNotIn("entries", size)

        flushed = self.json(OURS, "cache", "flush")["caches"][0]
        self.assertGreater(flushed["generation"], shown["generation"])
        # Others' questions may have filled it again; then with younger entries.
        after = self.json(OURS, "cache", "show")["caches"][0]
        self.assertGreaterEqual(after["generation"], flushed["generation"])
        self.assertEqual({each["generation"] for each in after["entries"]} - {after["generation"]}, set())
        self.resolves(OURS, IBACM, "node1")

    def test_doctor_knows_the_service(self) -> None:
        for host, tier, name in ((OURS, "service", "wireup serve"), (IBACM, "ibacm", "ibacm")):
            with self.subTest(host=host):
                self.resolves(host, OTHER, "node3")
                found = self.json(host, "doctor")
                self.assertEqual(found["tier"], tier)
                self.assertEqual(found["service"]["name"], name)
                (endpoint,) = found["service"]["endpoints"]
                self.assertTrue(endpoint["joined"], found)
                self.assertIn(f"node{host[1:]}", endpoint["addresses"])
                (port,) = found["ports"]
                self.assertEqual(port["state"], "ACTIVE")
                self.assertEqual(port["lid"], self.lid(host))
                self.assertTrue(port["sa_answers"])
                self.assertIn("0xffff", port["pkeys"])
                self.assertIn("nothing is missing", self.wireup(host, "doctor").out)

    def test_doctor_finds_a_stale_port_file(self) -> None:
        self.write(OURS, "/run/ibacm.port", "6125\n")
        try:
            done = self.wireup(OURS, "doctor")
        finally:
            self.run_on(OURS, "rm", "/run/ibacm.port")
        self.assertEqual(done.status, 1)
        self.assertIn("FAULT: /run/ibacm.port is stale", done.out)
        self.assertIn("to do: remove /run/ibacm.port", done.out)


class WithNobody(Cli, ManagementTest):
    """No service on H1, which asks; what H2 runs depends on the test."""

    options = ("--hosts", 2)

    def test_gids_and_lids_come_from_the_sa(self) -> None:
        for words in ((gid("H2"),), (f"lid:{self.lid('H2')}",)):
            path = self.resolves("H1", "H2", *words)
            self.assertEqual((path["source"], path["by"]), ("sa_query", "this process"))

    def test_names_come_by_multicast_from_a_service_elsewhere(self) -> None:
        with Background(self.fabric, "H2", WIREUP, "serve", seconds=120) as service:
            self.eventually(
                lambda: self.fabric.run("H2", "test", "-S", SOCKET).status == 0, service.output
            )
            path = self.resolves("H1", "H2", "H2")
            self.assertEqual(path["by"], "this process")
            done = self.wireup("H1", "resolve", "-t", "3", "H9")
            self.assertEqual(done.status, 1)
            self.assertRegex(done.err, r"^wireup: H9: multicast on softhca0 port 1: ")

    def test_a_rank_is_asked_where_one_resolves(self) -> None:
        rank, peer = Client(self.fabric, "H1"), Client(self.fabric, "H2")
        try:
            peer.path(f"resolve {gid('H1')} 20000")
            rank.path(f"resolve {gid('H2')} 20000")
            self.assertEqual(rank.ask("resolver"), "yes")
            for words in ((gid("H2"),), (f"lid:{self.lid('H2')}",)):
                path = self.resolves("H1", "H2", *words)
                self.assertEqual(path["by"], "a rank of a job")
            done = self.wireup("H1", "resolve", "-t", "3", "node2")
            self.assertEqual(done.status, 1)
            self.assertIn("wireup: node2: resolver on softhca0 port 1: ", done.err)
            self.assertEqual(self.json("H1", "doctor")["tier"], "rank")
            # The rank, which is the resolver still, empties its cache.
            before = self.json("H1", "cache", "size")["caches"][0]["generation"]
            self.assertGreater(self.json("H1", "cache", "flush")["caches"][0]["generation"], before)
            self.assertEqual(rank.ask("resolver"), "yes")
        finally:
            rank.end()
            peer.end()
        # Nobody is left: its cache is emptied all the same.
        before = self.json("H1", "cache", "size")["caches"][0]["generation"]
        self.assertGreater(self.json("H1", "cache", "flush")["caches"][0]["generation"], before)

    def test_settings_reach_the_commands_and_the_ranks(self) -> None:
        place = "/run/wireup-cli.conf"
        self.write("H1", place, "service_socket = /run/none.sock\nsa_bulk = never # why\n")
        words = ("env", f"WIREUP_CONF={place}", "WIREUP_DEVICE=softhca0", WIREUP)
        found = json.loads(self.fabric.run("H1", *words, "doctor", "--json").out)
        self.assertEqual(
            [found["settings"][name] for name in ("service_socket", "device", "sa_bulk", "log_level")],
            [
                {"value": "/run/none.sock", "origin": f"{place}:1"},
                {"value": "softhca0", "origin": "WIREUP_DEVICE"},
                {"value": "never", "origin": f"{place}:2"},
                {"value": "info", "origin": "default"},
            ],
        )
        self.write("H1", place, "sa_bulk = often\n")
        done = self.fabric.run("H1", *words, "resolve", gid("H2"))
        self.assertEqual(done.status, 2)
        self.assertEqual(
            done.err, f"wireup: {place}:1: 'sa_bulk' of 'often': use one of auto, always, never\n"
        )
        self.run_on("H1", "rm", place)


class WithoutSubnetManager(Cli, ManagementTest):
    options = ("--hosts", 2)

    def test_what_is_missing_is_named(self) -> None:
        self.assertEqual(self.sm("stop").status, 0)
        done = self.wireup("H1", "doctor")
        self.assertEqual(done.status, 1)
        self.assertIn("FAULT: the SA does not answer on softhca0 port 1", done.out)
        done = self.wireup("H1", "resolve", gid("H2"))
        self.assertEqual(done.status, 1)
        self.assertIn(f"wireup: {gid('H2')}: subnet administrator on softhca0 port 1: ", done.err)
        done = self.wireup("H1", "verify")
        self.assertEqual(done.status, 2)
        self.assertIn("resolve something first", done.err)
        self.assertEqual(self.wireup("H1", "cache").status, 1)


class Differing(Cli, PreloadedFiles):
    """A cache that was filled from a file with a wrong SL."""

    def test_verify_finds_the_difference(self) -> None:
        with tempfile.TemporaryDirectory(prefix="wireup-cli-") as place:
            command = self.write_files(Path(place), self.lid("H1"))
            with Background(self.fabric, "H1", *command) as service:
                self.wait_for_service(service)
                path = self.resolves("H1", "H2", "node2")
                self.assertEqual((path["source"], path["sl"]), ("preloaded", "5"))
                done = self.wireup("H1", "verify")
                self.assertEqual(done.status, 1, done.all)
                self.assertIn("outward: sl 5, the SA says 0", done.out)
                self.assertIn("inward: sl 5, the SA says 0", done.out)
                verified = self.json("H1", "verify", status=1)["caches"][0]
                # The file has the way back too.
                self.assertEqual(verified["differ"], 2)
                found = {
                    (each["cached"], each["sa"])
                    for path in verified["paths"]
                    for each in path["outward"]["differences"]
                    if each["field"] == "sl"
                }
                self.assertEqual(found, {("5", "0"), ("6", "0")})
                # What the SA says is the same everywhere: only the file is wrong.
                self.assertEqual(verified["multicast_trusted"], "yes")


if __name__ == "__main__":
    unittest.main(verbosity=2)
