#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Gate: every header compiles alone, and twice in one file.

usage: headers_alone.py --root DIR --work DIR [--jobs N] [--cc 'CC FLAGS'] --cxx 'CXX FLAGS'
                        [--built compile_commands.json] FOLDER…

FOLDERs are relative to the root. A .hpp is compiled as C++20; a .h as C11 and as C++20. The compiler
commands may begin with ccache, which makes a second run quick. A .hpp that is the first thing a
built source includes has been compiled alone by the build already: with --built, only its
`#pragma once` is looked for.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

LIMIT_S = 300
FIRST_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def headers(root, folders):
    for top in folders:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith((".h", ".hpp")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def first_of_a_source(root, commands):
    """Headers, relative to the root, that some source of the compilation database includes first."""
    proven = set()
    for entry in json.loads(read(commands)):
        source = os.path.join(entry["directory"], entry["file"])
        # A generated source need not exist before it is built.
        match = FIRST_INCLUDE.search(read(source)) if os.path.isfile(source) else None
        if not match:
            continue
        for top in (os.path.dirname(source), os.path.join(root, "src"), os.path.join(root, "include"),
                    root, os.path.join(root, "tests"), os.path.join(root, "examples")):
            header = os.path.join(top, match.group(1))
            if os.path.isfile(header):
                proven.add(os.path.relpath(os.path.realpath(header), os.path.realpath(root)))
                break
    return proven


def compile_alone(root, work, header, language, command):
    """None, or what the compiler said."""
    stem = os.path.join(work, header.replace("/", "_") + ("_c" if language == "c" else "_cxx"))
    source = stem + (".c" if language == "c" else ".cpp")
    path = os.path.join(root, header)
    text = f'#include "{path}"\n#include "{path}"\n'
    # C has no empty file, and a declaration of ours shows that the header ended where it should.
    text += "int wireup_header_ends_here(void);\n"
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    try:
        done = subprocess.run([*shlex.split(command), "-c", source, "-o", stem + ".o"],
                              capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"{header}: not compiled within {LIMIT_S} s"
    if done.returncode != 0:
        return f"{header} does not compile alone as {language}:\n{done.stderr}"
    return None


def check(root, work, folders, cxx, cc=None, jobs=2, built=None):
    """(number of headers looked at, sentences about those that failed)"""
    os.makedirs(work, exist_ok=True)
    proven = first_of_a_source(root, built) if built else set()
    tasks = []
    found = []
    looked_at = 0
    for header in headers(root, folders):
        if header.endswith(".hpp") and header in proven:
            looked_at += 1
            if "#pragma once" not in read(os.path.join(root, header)):
                found.append(f"{header} has no #pragma once")
            continue
        tasks.append((header, "c++", cxx))
        if header.endswith(".h") and cc:
            tasks.append((header, "c", cc))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        answers = pool.map(lambda task: compile_alone(root, work, *task), tasks)
    return looked_at + len(tasks), found + [answer for answer in answers if answer]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--cc")
    parser.add_argument("--built")
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    count, found = check(options.root, options.work, options.folders, options.cxx, options.cc,
                         options.jobs, options.built)
    for sentence in found:
        print(sentence)
    print(f"headers_alone: {count} checks, {len(found)} failures")
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
