#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The completion offers what the command takes, and the manual pages name every option.
#
#   completion_test.sh ROOT WIREUP
set -eu

root=$1 wireup=$2
source "$root/tools/completion/wireup.bash"

fail() {
  echo "completion_test.sh: $*" >&2
  exit 1
}

complete_words() { # the words of the line, the last one being completed
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _wireup
  echo "${COMPREPLY[*]:-}"
}

expect() { # expected, words...
  local expected=$1
  shift
  local got
  got=$(complete_words "$@")
  [[ $got == "$expected" ]] || fail "'$*' is completed to '$got', not '$expected'"
}

expect "resolve verify cache doctor serve --help" wireup ""
expect "verify" wireup v
expect "show size flush --json --help" wireup cache ""
expect "--json --help" wireup cache show ""
expect "--socket" wireup doctor --so
expect "" wireup resolve --timeout ""
expect "" wireup nothing ""
expect "$root/README.md" wireup doctor --socket "$root/READ"

# Every long option of every command is in the help, the completion and the manual page.
for command in resolve verify cache doctor serve; do
  section=1
  [[ $command == serve ]] && section=8
  options=$("$wireup" "$command" --help | grep -oE -- '--[a-z][a-z-]*' | sort -u)
  [[ $options == *--help* ]] || fail "wireup $command --help shows no options"
  offered=" $(complete_words wireup "$command" --) "
  page=$(sed 's/\\-/-/g' "$root/docs/man/wireup-$command.$section")
  for option in $options; do
    [[ $offered == *" $option "* ]] || fail "wireup $command takes $option, the completion has it not"
    [[ $option == --help || $page == *"$option"* ]] ||
      fail "wireup $command takes $option, wireup-$command($section) has it not"
  done
  for option in $offered; do
    [[ $options == *"$option"* ]] || fail "the completion has $option, wireup $command takes it not"
  done
done

# Every setting is in its manual page and in docs/configuration.md.
settings=$("$wireup" doctor --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["settings"])' || true)
[[ -n $settings ]] || fail "wireup doctor --json has no settings"
for setting in $settings; do
  grep -qE "^\.BR $setting \" \(WIREUP_" "$root/docs/man/wireup.conf.5" || fail "wireup.conf(5) lacks $setting"
  grep -q "^| \`$setting\` | \`WIREUP_" "$root/docs/configuration.md" || fail "docs/configuration.md lacks $setting"
done
