#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Shows that each gate fails when what it guards against is planted, and passes without it.

usage: gates_test.py [unittest options]; the compilers come from CXX and CC.
"""

import json
import os
import shlex
import subprocess
import tempfile
import unittest

import engine_symbols
import headers_alone
import include_arrows
import readme_listing

CXX = os.environ.get("CXX", "c++")
CC = os.environ.get("CC", "cc")

ARROWS = """\
set(WIREUP_ARROWS_base "")
set(WIREUP_ARROWS_mad "base")
set(WIREUP_ARROWS_verbs "base;mad")
set(WIREUP_ARROWS_cm_engine "base;mad")
set(WIREUP_ARROWS_cm "base;mad;verbs;cm_engine")
set(WIREUP_ARROWS_acm_engine "base;mad")
set(WIREUP_ARROWS_acm_client_protocol "base;mad")
set(WIREUP_ARROWS_acm "base;mad;acm_engine;acm_client_protocol")
set(WIREUP_ARROWS_acm_files "base;mad;acm_engine")
set(WIREUP_ARROWS_conn "base;mad;verbs;cm_engine;cm")
set(WIREUP_ARROWS_api "base;mad;verbs;cm_engine;cm;conn")
"""
CLEAN_TREE = {
    "cmake/WireupModule.cmake": ARROWS,
    "src/base/result.hpp": "#pragma once\n#include <string>\n",
    "src/base/clock.hpp": "#pragma once\n#include <ctime>\n",
    "src/mad/cm.hpp": '#pragma once\n#include "base/result.hpp"\n',
    "src/cm/engine/engine.hpp": '#pragma once\n#include <map>\n#include "mad/cm.hpp"\n',
    "src/cm/driver/ud.hpp": '#include <unistd.h>\n#include "cm/engine/engine.hpp"\n',
    "src/acm/engine/engine.hpp": '#include "base/result.hpp"\n',
    "src/acm/server/client_message.cpp": '#include <cerrno>\n#include "base/result.hpp"\n',
    "src/acm/server/client_message.hpp": "#pragma once\n",
    "src/acm/server/client_server.hpp": '#include "acm/server/client_message.hpp"\n',
    "src/acm/server/serve.cpp": '#include "acm/server/client_server.hpp"\n#include <unistd.h>\n',
    "src/acm/files/hosts.hpp": "#pragma once\n",
    "src/acm/files/hosts.cpp": '#include <vector>\n#include "acm/engine/engine.hpp"\n',
    "src/conn/driver.cpp": '#include "cm/driver/ud.hpp"\n#include "base/clock.hpp"\n',
    "src/api/wireup.cpp": '#include "wireup/wireup.h"\n#include "conn/driver.hpp"\n',
    "src/conn/driver.hpp": "#pragma once\n",
    "src/api/context.hpp": "#pragma once\n",
    "include/wireup/wireup.h": "#include <stdint.h>\n",
    "softhca/hca/qp.hpp": "#pragma once\n#include <infiniband/verbs.h>\n",
    "softhca/hca/qp.cpp": '#include "softhca/hca/qp.hpp"\n',
    "examples/ring/ring.c": "#include <wireup/wireup.h>\n#include <infiniband/verbs.h>\n",
    "tools/resolve.cpp": '#include "api/context.hpp"\n',
}


def write_tree(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


class IncludeArrows(unittest.TestCase):
    def scan_files(self, planted):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {**CLEAN_TREE, **planted})
            return include_arrows.Scan(root).run()

    def test_a_tree_that_keeps_the_arrows_passes(self):
        self.assertEqual(self.scan_files({}), [])

    def test_each_planted_arrow_is_found(self):
        cases = {
            "base uses mad": ("src/base/x.cpp", '#include "mad/cm.hpp"'),
            "mad uses verbs' user": ("src/mad/x.cpp", '#include "cm/driver/ud.hpp"'),
            "an engine uses its driver": ("src/cm/engine/x.cpp", '#include "cm/driver/ud.hpp"'),
            "cm uses acm": ("src/cm/driver/x.cpp", '#include "acm/engine/engine.hpp"'),
            "conn uses api": ("src/conn/x.cpp", '#include "api/context.hpp"'),
            "the arrow in angle brackets": ("src/base/x.cpp", "#include <mad/cm.hpp>"),
            "the arrow by a path upwards": ("src/base/x.cpp", '#include "../mad/cm.hpp"'),
            "an engine reads the clock": ("src/cm/engine/x.cpp", '#include "base/clock.hpp"'),
            "an engine has threads": ("src/cm/engine/x.cpp", "#include <thread>"),
            "an engine reads files": ("src/cm/engine/x.cpp", "#include <fstream>"),
            "an engine calls the system": ("src/cm/engine/x.cpp", "#include <sys/socket.h>"),
            "an engine uses files": ("src/acm/engine/x.cpp", '#include "acm/files/hosts.hpp"'),
            "a parser opens files": ("src/acm/files/x.cpp", "#include <fstream>"),
            "a parser has descriptors": ("src/acm/files/x.cpp", '#include "base/unique_fd.hpp"'),
            "an engine knows a device": ("src/cm/engine/x.cpp", "#include <infiniband/verbs.h>"),
            "the client protocol uses its server": (
                "src/acm/server/client_reply.cpp", '#include "acm/server/client_server.hpp"'),
            "the client protocol uses the engine": (
                "src/acm/server/client_reply.cpp", '#include "acm/engine/engine.hpp"'),
            "the client protocol does I/O": (
                "src/acm/server/netlink_message.cpp", "#include <sys/socket.h>"),
            "cm calls PMIx": ("src/cm/driver/x.cpp", "#include <pmix.h>"),
            "conn calls umad": ("src/conn/x.cpp", "#include <infiniband/umad.h>"),
            "conn knows the public API": ("src/conn/x.cpp", '#include "wireup/wireup.h"'),
            "src knows softhca": ("src/conn/x.cpp", '#include "softhca/hca/qp.hpp"'),
            "softhca knows src": ("softhca/hca/x.cpp", '#include "base/result.hpp"'),
            "softhca knows the product": ("softhca/hca/x.cpp", "#include <wireup/wireup.h>"),
            "a public header uses src": ("include/wireup/x.h", '#include "base/result.hpp"'),
            "an example uses src": ("examples/ring/x.c", '#include "base/result.hpp"'),
            "an example uses softhca": ("examples/ring/x.c", '#include "softhca/hca/qp.hpp"'),
            "a tool uses conn": ("tools/x.cpp", '#include "conn/driver.hpp"'),
            "the component uses src": ("ompi_component/x.c", '#include "base/result.hpp"'),
            "the component uses a stranger": ("ompi_component/x.c", '#include "other/x.h"'),
            "the provider uses src": ("dapl_provider/x.c", '#include "conn/driver.hpp"'),
        }
        for name, (path, line) in cases.items():
            with self.subTest(name):
                found = self.scan_files({path: "#pragma once\n" + line + "\n"})
                self.assertEqual(len(found), 1, found)
                self.assertTrue(found[0].startswith(path + ":2: "), found)

    def test_what_adapters_may_use_passes(self):
        self.assertEqual(self.scan_files({
            "ompi_component/btl.c": '#include "opal/mca/btl/btl.h"\n#include "wireup/wireup.h"\n',
            "dapl_provider/ep.c": '#include "dat/udat.h"\n#include "ep.h"\n',
            "dapl_provider/ep.h": "#include <infiniband/verbs.h>\n",
        }), [])

    def test_arrows_that_cannot_be_read_are_an_error(self):
        with self.assertRaises(SystemExit):
            self.scan_files({"cmake/WireupModule.cmake": "# nothing\n"})


class EngineSymbols(unittest.TestCase):
    def violations(self, source, name="libwireup_x_engine.a"):
        with tempfile.TemporaryDirectory() as folder:
            cpp, obj, archive = (os.path.join(folder, n) for n in ("x.cpp", "x.o", name))
            with open(cpp, "w", encoding="utf-8") as file:
                file.write(source)
            subprocess.run([*shlex.split(CXX), "-std=c++20", "-O2", "-c", cpp, "-o", obj], check=True,
                           timeout=120)
            subprocess.run(["ar", "rcs", archive, obj], check=True, timeout=60)
            return engine_symbols.violations(archive)

    def test_code_that_computes_passes(self):
        self.assertEqual(self.violations("""
            #include <algorithm>
            #include <cstring>
            #include <deque>
            #include <map>
            #include <optional>
            #include <string>
            #include <vector>
            std::map<std::string, std::vector<int>> known;
            int f(const char* text, std::size_t n) {
              std::deque<std::string> queue;
              queue.emplace_back(text, n);
              known[queue.front()].push_back(static_cast<int>(std::strlen(text)));
              return known.at(text).front();
            }
        """), [])

    def test_each_planted_use_is_found(self):
        cases = {
            "clock_gettime": ("#include <ctime>", "timespec t; clock_gettime(CLOCK_MONOTONIC, &t);"),
            "time": ("#include <ctime>", "time(nullptr);"),
            "gettimeofday": ("#include <sys/time.h>", "timeval t; gettimeofday(&t, nullptr);"),
            "steady_clock::now": ("#include <chrono>", "std::chrono::steady_clock::now();"),
            "system_clock::now": ("#include <chrono>", "std::chrono::system_clock::now();"),
            "nanosleep": ("#include <ctime>", "timespec t{}; nanosleep(&t, nullptr);"),
            "std::thread": ("#include <thread>", "std::thread([] {}).join();"),
            "pthread_mutex_lock": ("#include <mutex>", "static std::mutex m; m.lock();"),
            "pthread_create": ("#include <pthread.h>",
                               "pthread_t t; pthread_create(&t, nullptr, nullptr, nullptr);"),
            "condition_variable": ("#include <condition_variable>",
                                   "static std::condition_variable c; c.notify_all();"),
            "socket": ("#include <sys/socket.h>", "socket(1, 1, 0);"),
            "poll": ("#include <poll.h>", "poll(nullptr, 0, 0);"),
            "read": ("#include <unistd.h>", "char c; if (read(0, &c, 1)) {}"),
            "write": ("#include <unistd.h>", "if (write(1, \"\", 0)) {}"),
            "open": ("#include <fcntl.h>", "open(\"/\", 0);"),
            "syscall": ("#include <unistd.h>", "syscall(1);"),
            "getenv": ("#include <cstdlib>", "getenv(\"HOME\");"),
            "random_device": ("#include <random>", "std::random_device d; d();"),
            "basic_ofstream": ("#include <fstream>", "std::ofstream(\"x\") << 1;"),
            "fprintf": ("#include <cstdio>", "std::fprintf(stdout, \"%d\", 1);"),
            "ibv_post_send": ('extern "C" int ibv_post_send(void*);', "ibv_post_send(nullptr);"),
            "umad_send": ('extern "C" int umad_send(int);', "umad_send(0);"),
            "PMIx_Get": ('extern "C" int PMIx_Get(void*);', "PMIx_Get(nullptr);"),
        }
        for symbol, (header, code) in cases.items():
            with self.subTest(symbol):
                found = self.violations(f"{header}\nvoid f() {{ {code} }}\n")
                self.assertTrue(any(symbol in sentence for sentence in found), found)

    def test_only_base_may_write_to_stderr(self):
        source = "#include <cstdio>\nvoid f(int i) { std::fprintf(stderr, \"%d\", i); }\n"
        self.assertNotEqual(self.violations(source), [])
        self.assertEqual(self.violations(source, "libwireup_base.a"), [])

    def test_an_archive_that_is_not_there_is_an_error(self):
        with self.assertRaises(SystemExit):
            engine_symbols.violations("/nonexistent/libwireup_x_engine.a")


class HeadersAlone(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, files)
            return headers_alone.check(root, os.path.join(root, "work"), ["src"],
                                       f"{CXX} -std=c++20 -Wall -Werror",
                                       f"{CC} -std=c11 -Wall -Wextra -Wpedantic -Werror")

    def test_whole_headers_pass(self):
        count, found = self.check({
            "src/a.hpp": "#pragma once\n#include <string>\ninline std::string f() { return {}; }\n",
            "src/b.h": "#ifndef B_H\n#define B_H\nstruct b { int x; };\n#endif\n",
        })
        self.assertEqual((count, found), (3, []))

    def test_each_planted_fault_is_found(self):
        cases = {
            "an include is missing": ("src/a.hpp", "#pragma once\ninline std::string f();\n"),
            "no include guard": ("src/a.hpp", "struct A {};\n"),
            "C++ in a C header": ("src/b.h", "#ifndef B\n#define B\nclass B;\n#endif\n"),
            "C in a C++ world": ("src/b.h", "#ifndef B\n#define B\nint f(int class);\n#endif\n"),
            "the header does not end": ("src/b.h", "#ifndef B\n#define B\nint f(\n#endif\n"),
        }
        for name, (path, text) in cases.items():
            with self.subTest(name):
                _, found = self.check({path: text})
                self.assertNotEqual(found, [])

    def test_what_the_build_compiled_alone_is_not_compiled_again(self):
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {
                # Would not compile here: shows that it is left to the build.
                "src/a.hpp": "#pragma once\n#error compiled\n",
                "src/x/b.hpp": "struct B {};\n",
                "src/x/c.hpp": "#pragma once\n#error compiled\n",
                "src/a.cpp": '// first a.hpp\n#include "a.hpp"\n#include "x/c.hpp"\n',
                "src/x/b.cpp": '#include "x/b.hpp"\n',
            })
            commands = [{"directory": root, "file": f"src/{name}"} for name in ("a.cpp", "x/b.cpp")]
            write_tree(root, {"commands.json": json.dumps(commands)})
            count, found = headers_alone.check(root, os.path.join(root, "work"), ["src"],
                                               f"{CXX} -std=c++20",
                                               built=os.path.join(root, "commands.json"))
        self.assertEqual(count, 3)
        self.assertEqual(len(found), 2, found)
        self.assertIn("src/x/b.hpp has no #pragma once", found)
        self.assertTrue(any(sentence.startswith("src/x/c.hpp does not compile") for sentence in found))


class ReadmeListing(unittest.TestCase):
    def test_it_is_the_file_and_short(self):
        source = "int main(void) {}\n"
        self.assertIsNone(readme_listing.problem(f"# x\n```c\n{source}```\n", source, 2))
        self.assertIsNotNone(readme_listing.problem("# x\n```c\nint main() {}\n```\n", source, 2))
        self.assertIsNotNone(readme_listing.problem(f"```c\n{source}```\n", source, 1))


if __name__ == "__main__":
    unittest.main()
