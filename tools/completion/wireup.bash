# SPDX-License-Identifier: BSD-3-Clause
# Completion of the `wireup` command in bash.
_wireup() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' sub='' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} != -* ]]; then
      if [[ -z $command ]]; then
        command=${COMP_WORDS[i]}
      elif [[ -z $sub ]]; then
        sub=${COMP_WORDS[i]}
      fi
    fi
  done
  COMPREPLY=()
  case $before in
    -d | --device | --port)
      local devices=(/sys/class/infiniband/*)
      [[ -e ${devices[0]} ]] && mapfile -t COMPREPLY < <(compgen -W "${devices[*]##*/}" -- "$word")
      return 0
      ;;
    -S | --socket | --options | --addresses)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0
      ;;
    --user)
      mapfile -t COMPREPLY < <(compgen -u -- "$word")
      return 0
      ;;
    -p | --pkey | -t | --timeout)
      return 0
      ;;
  esac
  local words
  case $command in
    '') words='resolve verify cache doctor serve --help' ;;
    resolve) words='--source --lid --timeout --device --port --pkey --socket --json --help' ;;
    verify) words='--all --timeout --device --port --pkey --json --help' ;;
    cache)
      words='--json --help'
      [[ -z $sub ]] && words="show size flush $words"
      ;;
    doctor) words='--socket --json --help' ;;
    serve) words='--options --addresses --socket --user --keep-privileges --help' ;;
    *) return 0 ;;
  esac
  if [[ $command == resolve && $word != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -A hostname -- "$word")
    return 0
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _wireup wireup
