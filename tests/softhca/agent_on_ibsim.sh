#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The agent and unmodified umad programs on a real ibsim and a real OpenSM: two leaf switches, one
# spine, four hosts. Usage: agent_on_ibsim.sh SOFTHCA_BUILD_DIR MC_JOIN_PROGRAM
set -u
bin=$1
join=$2
softhca=$bin/softhca
preload=$bin/libsofthca.so
for tool in ibsim opensm saquery ibstat smpquery; do
  if ! command -v "$tool" >/dev/null; then
    echo "$tool is not installed; scripts/setup installs it"
    exit 1
  fi
done

work=$(mktemp -d) || exit 1
export IBSIM_SOCKNAME="softhca-test-$$" SOFTHCA_DIR=$work/run
pids=()
failures=0
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
  sleep 0.2
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null; done
  rm -rf "$work"
}
trap finish EXIT

check() {  # check NAME CONDITION...: the condition is a command
  local name=$1
  shift
  if "$@"; then
    echo "ok    $name"
  else
    echo "FAIL  $name"
    failures=$((failures + 1))
  fi
}
eventually() {  # eventually SECONDS COMMAND...: until it is true, at most so long
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -ge $end ] && return 1
    sleep 0.05
  done
}
on() {  # on HOST COMMAND...: with the emulated HCA of a host
  local host=$1
  shift
  SOFTHCA_HOST=$host LD_PRELOAD=$preload timeout -k 2 20 "$@"
}
has() {  # has TEXT PATTERN
  grep -qE -- "$2" <<<"$1"
}
state_of() { "$softhca" ports 2>/dev/null | awk -v host="$1" '$1 == host { print $4 }'; }
sa_answers() { on "$1" saquery CPI >/dev/null 2>&1; }
lid_of() { "$softhca" ports | awk -v host="$1" '$1 == host { print $5 }'; }
is_state() { [ "$(state_of "$1")" = "$2" ]; }
counter() { "$softhca" stats | awk -v name="$1" '$1 == name { print $2 }'; }
mlids() { "$softhca" ports | awk '/^SWITCH/ { on = 1; next } on { sum += $6 } END { print sum + 0 }'; }
more_mlids_than() { [ "$(mlids)" -gt "$1" ]; }

switch() {  # switch NAME GUID PORT=PEER...
  printf 'switchguid=0x%x\n' "$2"
  printf 'Switch\t8 "S-%016x"\t# "%s" base port 0 lid 0 lmc 0\n' "$2" "$1"
  shift 2
  printf '%s\n' "$@"
  echo
}
host() {  # host NUMBER SWITCH PORT
  printf 'caguid=0x%x\n' $(($1 * 16))
  printf 'Ca\t1 "H-%016x"\t# "H%d HCA-1"\n[1]\t"S-%016x"[%d]\n\n' $(($1 * 16)) "$1" "$2" "$3"
}
{
  switch leaf1 4096 '[1] "H-0000000000000010"[1]' '[2] "H-0000000000000020"[1]' \
    '[8] "S-0000000000001002"[1]'
  switch leaf2 4097 '[1] "H-0000000000000030"[1]' '[2] "H-0000000000000040"[1]' \
    '[8] "S-0000000000001002"[2]'
  switch spine 4098 '[1] "S-0000000000001000"[8]' '[2] "S-0000000000001001"[8]'
  host 1 4096 1
  host 2 4096 2
  host 3 4097 1
  host 4 4097 2
} >"$work/net"

mkfifo "$work/console"
sleep 600 >"$work/console" &
pids+=($!)
ibsim -s -f "$work/ibsim.out" "$work/net" <"$work/console" >"$work/ibsim.log" 2>&1 &
pids+=($!)
start_agent() {
  "$bin/softhca-agent" >>"$work/agent.log" 2>&1 &
  agent=$!
  pids+=("$agent")
  # A killed agent leaves its file behind; this one's has its process id.
  eventually 10 grep -qsx "$agent" "$SOFTHCA_DIR/agent.ready"
}
start_opensm() {
  mkdir -p "$work/osm"
  (cd "$work/osm" && SOFTHCA_HOST=H1 OSM_CACHE_DIR=. OSM_TMP_DIR=. LD_PRELOAD=$preload \
    exec opensm -f opensm.log >opensm.out 2>&1) &
  opensm=$!
  pids+=("$opensm")
}

check "the agent comes up before any subnet manager" start_agent
check "ports are INIT without one" is_state H3 INIT
out=$(on H3 ibstat)
check "ibstat shows it" has "$out" 'State: Initializing'
start_opensm
for host in H1 H2 H3 H4; do
  check "$host becomes ACTIVE" eventually 20 is_state "$host" ACTIVE
done
out=$(on H3 ibstat)
check "ibstat shows that too" has "$out" 'State: Active'
check "and the LID" has "$out" "Base lid: $(lid_of H3)"

"$softhca" stats --reset
two=$(lid_of H2)
four=$(lid_of H4)
on H2 saquery PR --slid "$two" --dlid "$four" >"$work/two" 2>&1 &
first=$!
on H3 saquery PR --slid "$four" --dlid "$two" >"$work/three" 2>&1
wait $first
check "a path from H2" has "$(cat "$work/two")" "dlid\.+$four"
check "one record only" test "$(grep -c 'PathRecord dump' "$work/two")" = 1
check "the way back at the same time from H3" has "$(cat "$work/three")" "dlid\.+$two"
check "two path queries are counted" test "$(counter sa_path_queries)" = 2

out=$(on H3 saquery NR)
check "a table longer than a MAD comes whole" test "$(grep -c 'NodeRecord dump' <<<"$out")" = 7

out=$(on H4 smpquery -D NodeInfo 0,1)
check "a directed route starts at the host itself" has "$out" "Guid:\.+0x0*1001\b"
out=$(on H4 smpquery NodeInfo "$two")
check "a LID route" has "$out" "Guid:\.+0x0*20\b"

before=$(mlids)
group=ff154001ffff00030400000000000000
for host in H1 H2 H4; do
  out=$(on "$host" "$join" $group 3 4)
  check "$host joins ($out)" has "$out" 'status 0x0000 mlid 0xc00'
done
check "the multicast tables change" eventually 5 more_mlids_than "$before"
out=$(on H3 "$join" ff154001ffff00060500000000000000 6 5)
check "a group faster than the port is refused ($out)" has "$out" 'status 0x0[1-9]00'

echo 'Unlink "H-0000000000000030"[1]' >"$work/console"
check "a pulled cable shows" eventually 10 is_state H3 DOWN
echo 'ReLink "H-0000000000000030"[1]' >"$work/console"
check "and the cable put back" eventually 20 is_state H3 ACTIVE

{ kill -9 "$agent" && wait "$agent"; } 2>/dev/null
out=$(on H2 ibstat 2>&1)
check "no devices without an agent" test -z "$(grep softhca0 <<<"$out")"
{ kill -9 "$opensm" && wait "$opensm"; } 2>/dev/null
check "a second agent takes over" start_agent
check "it gives back what the first one held" grep -q 'giving back ibsim client slot' \
  "$work/agent.log"
check "it shows the same ports" is_state H2 ACTIVE
start_opensm
check "and a subnet manager can start on it" eventually 20 sa_answers H2
out=$(on H2 saquery PR --slid "$two" --dlid "$four")
check "and serves" has "$out" "dlid\.+$four"

{ kill -9 "$opensm" && wait "$opensm"; } 2>/dev/null
out=$(on H2 "$join" $group 3 4 2>&1)
check "a dead subnet manager is a timeout ($out)" has "$out" 'no answer: agent 0 status 110'
kill "$agent"
wait "$agent"
check "SIGTERM ends the agent with status 0" test $? = 0
check "and takes its files away" test ! -e "$SOFTHCA_DIR/agent.ready"

if [ $failures -ne 0 ]; then
  echo "$failures checks failed; the agent's log:"
  cat "$work/agent.log"
  exit 1
fi
