# Long steps, for scripts/setup and scripts/timed: a step prints its name, its last duration and its duration.
durations=${CARGO_TARGET_DIR:-target}/durations

minutes() {
  if [ "$1" -ge 60 ]; then echo "$(($1 / 60)) min $(($1 % 60)) s"; else echo "$1 s"; fi
}

# last_duration NAME: seconds of the last run that succeeded.
last_duration() { [ ! -e "$durations" ] || awk -F '\t' -v name="$1" '$1 == name { found = $2 } END { print found }' "$durations"; }

record_duration() {
  mkdir -p "${durations%/*}"
  [ ! -e "$durations" ] || awk -F '\t' -v name="$1" '$1 != name' "$durations" >"$durations.new"
  printf '%s\t%s\n' "$1" "$2" >>"$durations.new"
  mv "$durations.new" "$durations"
}

# timed POSITION NAME COMMAND...: runs a step. POSITION is a prefix such as "[2/5] ". A failure ends the script, by its `set -e`.
timed() {
  local position=$1 name=$2 before from=$SECONDS
  shift 2
  before=$(last_duration "$name")
  printf '%s%s%s\n' "$position" "$name" "${before:+ (last time: $(minutes "$before"))}" >&2
  "$@"
  record_duration "$name" $((SECONDS - from))
  [ $((SECONDS - from)) -lt 5 ] || printf '%s%s: %s\n' "$position" "$name" "$(minutes $((SECONDS - from)))" >&2
}

# step NAME COMMAND...: plans a step. run_steps runs all planned steps and knows their number.
step_names=() step_commands=()
step() {
  step_names+=("$1")
  step_commands+=("$(printf '%q ' "${@:2}")")
}

run_steps() {
  trap 'printf "setup: failed to %s\n" "${step_names[number]}" >&2' EXIT
  for number in "${!step_names[@]}"; do
    eval "timed '[$((number + 1))/${#step_names[@]}] ' ${step_names[number]@Q} ${step_commands[number]}"
  done
  trap - EXIT
}
