#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# with_async_seeds.sh FIRST LAST PROGRAM ARGUMENTS...: runs a test program on fabrics in the
# asynchronous mode, once for each seed.
set -eu
# The seeds are rounds enough.
export WIREUP_TIMES=1
seed=$1
last=$2
shift 2
while [ "$seed" -le "$last" ]; do
  echo "asynchronous mode, seed $seed"
  SOFTHCA_TEST_ASYNC=$seed "$@"
  seed=$((seed + 1))
done
