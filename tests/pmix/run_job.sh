#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs a program of the integration tests under mpirun, within a time limit, and decides whether
# the job did what it should: mpirun succeeded, and every rank wrote DIR/done.<rank> (the exit
# status of mpirun is no witness with --recovery: it is 0 whatever the ranks did).
#
#   run_job.sh [--ranks N] [--hosts N] [--limit S] [--recovery] [--killed RANK] [--kill-server]
#              PROGRAM STEPS [OPTIONS OF THE PROGRAM…]
#   run_job.sh --no-launcher PROGRAM STEPS
#
# --hosts N runs on N emulated hosts of testbed/ib-fabric, each with a PMIx server of its own;
# without it, all ranks are on this machine. --kill-server kills mpirun with SIGKILL once all ranks
# are ready, and then says "go".
set -u

here=$(cd "$(dirname "$0")" && pwd)
fabric_tool=$here/../../testbed/ib-fabric
ranks=4 hosts=0 limit=60 recovery=no killed=-1 kill_server=no launcher=yes

while [[ ${1-} == --* ]]; do
  case $1 in
    --ranks) ranks=$2; shift ;;
    --hosts) hosts=$2; shift ;;
    --limit) limit=$2; shift ;;
    --killed) killed=$2; shift ;;
    --recovery) recovery=yes ;;
    --kill-server) kill_server=yes ;;
    --no-launcher) launcher=no ;;
    *) echo "run_job.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
[[ $# -ge 2 ]] || { echo "run_job.sh: PROGRAM and STEPS are missing" >&2; exit 2; }
program=$1 steps=$2
shift 2

work=$(mktemp -d "${TMPDIR:-/tmp}/wireup-pmix.XXXXXX")
marks=$work/marks
mkdir "$marks"
fabric=

cleanup() {
  local file pid
  for file in "$marks"/pid.*; do  # ranks of a killed mpirun that did not end by themselves
    [[ -f $file ]] || continue
    pid=$(<"$file")
    [[ $(readlink "/proc/$pid/exe") == "$(readlink -f "$program")" ]] && kill -KILL "$pid"
  done
  [[ -z $fabric ]] || timeout -k 5 30 "$fabric_tool" down --name "$fabric" >/dev/null
  rm -rf "$work"
}
trap cleanup EXIT

fail() {
  echo "run_job.sh: $*" >&2
  exit 1
}

if [[ $launcher == no ]]; then
  # Whatever launcher the tests themselves run under is none of this program's.
  clean_env=$(env | sed -n 's/^\(\(PMIX\|OMPI\|PRTE\|ORTE\|SLURM\)_[A-Za-z0-9_]*\)=.*/-u \1/p')
  # shellcheck disable=SC2086  # words are wanted
  timeout -k 5 10 env $clean_env "$program" "$steps" 2>"$work/stderr"
  status=$?
  cat "$work/stderr"
  [[ $status -eq 1 ]] || fail "exit status $status, expected 1"
  grep -q 'NoPmix' "$work/stderr" || fail "the error is not NoPmix"
  grep -q 'start the program with mpirun' "$work/stderr" || fail "the error does not say what to do"
  exit 0
fi

# MPI asks hwloc, and hwloc reads the names of all PCI vendors, for minutes under AddressSanitizer.
export HWLOC_COMPONENTS=-pci
arguments=(-n "$ranks" -x HWLOC_COMPONENTS)
[[ -n ${LSAN_OPTIONS-} ]] && arguments+=(-x LSAN_OPTIONS)
[[ $recovery == yes ]] && arguments+=(--enable-recovery)
if [[ $hosts -gt 0 ]]; then
  fabric=pmix-$$
  timeout -k 5 30 "$fabric_tool" up --no-softhca --name "$fabric" --hosts "$hosts" >"$work/up" 2>&1 ||
    { cat "$work/up" >&2; fail "the hosts did not come up"; }
  start=("$fabric_tool" mpirun --name "$fabric")
else
  [[ $(id -u) -eq 0 ]] && arguments+=(--allow-run-as-root)
  start=(mpirun --oversubscribe --bind-to none --mca btl "tcp,self" --mca pml ob1)
fi
command=("${start[@]}" "${arguments[@]}" "$program" "$steps" --marks "$marks")
[[ $killed -ge 0 ]] && command+=(--killed "$killed")
command+=("$@")

count() { find "$marks" -name "$1.*" | wc -l; }

# Waits until $2 files $1.* exist, for at most $3 seconds.
await() {
  local end=$((SECONDS + $3))
  until [[ $(count "$1") -ge $2 ]]; do
    [[ $SECONDS -lt $end ]] || fail "only $(count "$1") of $2 ranks are $1 after $3 s"
    sleep 0.02
  done
}

if [[ $kill_server == yes ]]; then
  "${command[@]}" >"$work/stdout" 2>&1 &
  server=$!
  (await ready "$ranks" 30) || { kill -KILL "$server"; cat "$work/stdout" >&2; exit 1; }
  kill -KILL "$server"
  wait "$server" 2>/dev/null
  touch "$marks/go"
  await "done" "$ranks" 30
else
  timeout -k 5 "$limit" "${command[@]}"
  status=$?
  [[ $status -eq 0 ]] || fail "mpirun ended with status $status (124: not within $limit s)"
fi

for ((rank = 0; rank < ranks; ++rank)); do
  if [[ $rank -eq $killed ]]; then
    [[ ! -f $marks/done.$rank ]] || fail "rank $rank was to be killed and finished"
  elif [[ ! -f $marks/done.$rank ]]; then
    fail "rank $rank did not finish its steps"
  fi
done
