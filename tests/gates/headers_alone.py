#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Gate: every header compiles alone, and twice in one file.

usage: headers_alone.py --root DIR --work DIR [--jobs N] [--cc 'CC FLAGS'] --cxx 'CXX FLAGS' FOLDER…

FOLDERs are relative to the root. A .hpp is compiled as C++20; a .h as C11 and as C++20. The compiler
commands may begin with ccache, which makes a second run quick.
"""

import argparse
import concurrent.futures
import os
import shlex
import subprocess
import sys

LIMIT_S = 120


def headers(root, folders):
    for top in folders:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith((".h", ".hpp")):
                    yield os.path.relpath(os.path.join(folder, name), root)


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


def check(root, work, folders, cxx, cc=None, jobs=2):
    """(number of compilations, sentences about headers that failed)"""
    os.makedirs(work, exist_ok=True)
    tasks = []
    for header in headers(root, folders):
        tasks.append((header, "c++", cxx))
        if header.endswith(".h") and cc:
            tasks.append((header, "c", cc))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        answers = pool.map(lambda task: compile_alone(root, work, *task), tasks)
    return len(tasks), [answer for answer in answers if answer]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--cc")
    parser.add_argument("folders", nargs="+")
    options = parser.parse_args()
    count, found = check(options.root, options.work, options.folders, options.cxx, options.cc,
                         options.jobs)
    for sentence in found:
        print(sentence)
    print(f"headers_alone: {count} compilations, {len(found)} failures")
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
