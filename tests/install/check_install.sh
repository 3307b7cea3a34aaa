#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs a build tree into a new folder, moves the folder, and builds and runs programs against it
# with CMake and with pkg-config.
#
#   check_install.sh BUILD CC
set -eu

build=$1 cc=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/wireup-install.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
  echo "check_install.sh: $*" >&2
  exit 1
}

cmake --install "$build" --prefix "$work/installed" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/installed" "$work/moved"
prefix=$work/moved

# The whole of what is installed.
(cd "$prefix" && find . -type f -o -type l) | sed "s/\.so\.[0-9.]*$/.so.N/" | sort -u >"$work/files"
while read -r file; do
  case $file in
    ./include/wireup/*.h | ./include/wireup/*.hpp) ;;
    */libwireup.so | */libwireup.so.N | */pkgconfig/wireup.pc) ;;
    */cmake/wireup/wireup*.cmake) ;;
    */libibacm.so | */libibacm.so.N | ./include/infiniband/ib_acm.h | */man3/ib_acm_*.3) ;;
    */libibcm.so | */libibcm.so.N | ./include/infiniband/cm.h | ./include/infiniband/cm_abi.h | */man3/ib_cm_*.3) ;;
    ./bin/wireup | */man1/wireup*.1 | */man3/wireup_*.3 | */man5/wireup.conf.5 | */bash-completion/completions/wireup) ;;
    */man8/wireup-*.8 | */systemd/system/wireup.service | */systemd/system/wireup.socket) ;;
    *) fail "installs $file, which nobody asked for" ;;
  esac
done <"$work/files"
for wanted in include/wireup/wireup.h include/wireup/wireup.hpp bin/wireup share/man/man1/wireup.1 \
  share/man/man1/wireup-{resolve,verify,cache,doctor}.1 share/man/man3/wireup_resolve.3 share/man/man5/wireup.conf.5 \
  share/man/man8/wireup-serve.8 share/bash-completion/completions/wireup; do
  [[ -f $prefix/$wanted ]] || fail "does not install $wanted"
done

grep -q "^ExecStart=/.*/bin/wireup serve$" "$prefix"/lib/systemd/system/wireup.service ||
  fail "installs a unit that does not start bin/wireup"

library=$(find "$prefix" -name 'libwireup.so')
[[ -n $library ]] || fail "does not install libwireup.so"
libdir=$(dirname "$library")
# Its interface is wireup_* and nothing else; the version script's name is the one other symbol.
strangers=$(nm -D --defined-only --format=posix "$library" | awk '$2 != "A" {print $1}' |
  sed 's/@.*//' | grep -v '^wireup_' || true)
[[ -z $strangers ]] || fail "exports $(echo "$strangers" | tr '\n' ' ')"
if grep -rlF -e "$build" "$prefix" --include='*.cmake' --include='*.pc'; then
  fail "the files above name the build tree"
fi

run() {
  # As outside of any launcher, and without an emulated device.
  timeout -k 5 30 env -u LD_PRELOAD -u PMIX_RANK -u PMIX_NAMESPACE -u PMIX_SERVER_URI2 "$@" ||
    fail "$1 failed with status $?"
}

echo "== CMake"
cmake -S "$here/consumer" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release \
  >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/cmake" >"$work/log" || { cat "$work/log"; exit 1; }
run "$work/cmake/consumer_c"
run "$work/cmake/consumer_cxx"

echo "== pkg-config"
export PKG_CONFIG_PATH=$libdir/pkgconfig
[[ $(pkg-config --modversion wireup) == 0.* ]] || fail "wireup.pc has no version"
# shellcheck disable=SC2046  # words are wanted
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror "$here/consumer/consumer.c" -o "$work/by_pc" \
  $(pkg-config --cflags --libs wireup)
run env LD_LIBRARY_PATH="$libdir" "$work/by_pc"

echo "== libibcm"
"$cc" -std=gnu90 -Wall -Wextra -Werror "$here/../cm/libibcm/programs/ibcm_every_call.c" -o "$work/ibcm" \
  -I"$prefix/include" -L"$libdir" -libcm -libverbs
run env LD_LIBRARY_PATH="$libdir" "$work/ibcm"

echo "== a version that is not compatible is refused"
sed 's/find_package(wireup 0.1/find_package(wireup 0.2/' "$here/consumer/CMakeLists.txt" >"$work/CMakeLists.txt"
if cmake -S "$work" -B "$work/refused" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1; then
  fail "a consumer that wants version 0.2 was content"
fi
grep -q 'wireup' "$work/log" || { cat "$work/log"; fail "refused for another reason"; }
