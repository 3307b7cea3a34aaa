#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Gate: what the engines' archives ask of the outside.

An engine has no thread, clock, descriptor or device. Its archive may therefore refer to nothing but
memory and string functions of C, the C++ runtime, the parts of the C++ library that only compute,
and wireup's own symbols. C symbols are compared with a list of what is allowed, so that a call
nobody thought of fails as well.

usage: engine_symbols.py ARCHIVE…
"""

import re
import subprocess
import sys

ALLOWED_C = {
    "memchr", "memcmp", "memcpy", "memmove", "memset", "bcmp",
    "strlen", "strnlen", "strcmp", "strncmp", "strchr",
    "snprintf", "vsnprintf", "strerror_r", "abort",
    "__stack_chk_fail", "__memcpy_chk", "__memmove_chk", "__memset_chk",
    "__snprintf_chk", "__vsnprintf_chk",
    "_GLOBAL_OFFSET_TABLE_", "_Unwind_Resume", "__dso_handle", "__gxx_personality_v0",
}
# A failed WIREUP_CHECK says so before it ends the process.
ALLOWED_C_OF_BASE = {"fprintf", "__fprintf_chk", "stderr", "fwrite", "fputs"}

DENIED_CXX = re.compile(
    r"std::(__\w+::)*("
    r"(j?thread|mutex|\w+_mutex|condition_variable\w*|this_thread|future|promise|\w*lock\w*_base)\b"
    r"|chrono::(_V2::)?\w+_clock::now|random_device|filesystem|ios_base"
    r"|basic_(i|o|io|file|if|of)stream|basic_filebuf|basic_fstream|c(out|err|in|log)\b)"
)


def undefined_symbols(archive):
    """(mangled, demangled) names that `archive` refers to and does not define itself."""
    def listing(*options):
        done = subprocess.run(["nm", *options, archive], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise SystemExit(f"engine_symbols: nm {archive}: {done.stderr.strip()}")
        return done.stdout

    wanted = []
    for line in listing("--undefined-only", "--format=posix").splitlines():
        words = line.split()
        if len(words) == 2 and words[1] in "Uwv":
            wanted.append(words[0])
    defined = set()
    for line in listing("--defined-only", "--format=posix").splitlines():
        words = line.split()
        if len(words) >= 2 and len(words[1]) == 1:
            defined.add(words[0])
    names = sorted(set(wanted) - defined)
    filtered = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                              timeout=120, check=True)
    return list(zip(names, filtered.stdout.splitlines()))


def violations(archive):
    """Sentences about the symbols of `archive` that an engine may not use."""
    allowed_c = ALLOWED_C
    if re.search(r"libwireup_base\.a$", archive):
        allowed_c = ALLOWED_C | ALLOWED_C_OF_BASE
    found = []
    for mangled, name in undefined_symbols(archive):
        if mangled.startswith("_Z"):
            if DENIED_CXX.search(name):
                found.append(f"{archive}: uses {name}")
        elif mangled not in allowed_c and not mangled.startswith("__cxa_"):
            found.append(f"{archive}: uses {mangled}, which is not on the list of what an engine may use")
    return found


def main(archives):
    if not archives:
        raise SystemExit(__doc__)
    found = [sentence for archive in archives for sentence in violations(archive)]
    for sentence in found:
        print(sentence)
    print(f"engine_symbols: {len(archives)} archives, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
