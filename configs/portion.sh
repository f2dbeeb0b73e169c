#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a comparison on a host that is lent for minutes at a time: starts it where it does not run, waits for a while,
# and hands back what is new. Call it again until it ends with 0; 75 says that the comparison goes on meanwhile.
#
#   portion.sh CONFIG RESULTS BACK [BLOCKS]      BLOCKS (1): of those missing, how many this visit has time for
#
# RESULTS is the folder of the comparison; to go on with an earlier visit, unpack its records.tar.gz there first. BACK
# gets records.tar.gz, all but traces, and PIECES pieces of the traces that were not handed back yet: joined in order
# of their names, they are one tar for each server life. To begin anew on the same host, remove RESULTS.portion.
#
# BAKEOFF (bakeoff): the command.   WAIT_S (500): how long a call lasts.   PIECES (3), PIECE_MIB (15): what fits back.
set -euo pipefail
config=${1:?$0 CONFIG RESULTS BACK [BLOCKS]}; results=${2:?}; back=${3:?}; blocks=${4:-1}
state=$results.portion; mkdir -p "$state/waiting" "$back"

running() { [ -e "$state/pid" ] && kill -0 "$(cat "$state/pid")" 2>/dev/null; }

start() {
  resume=(); [ -e "$results/config.yaml" ] && resume=(--resume)
  # shellcheck disable=SC2086
  setsid -f bash -c 'echo $$ >"$0/pid"; "${@:1}" >>"$0/log" 2>&1; echo $? >"$0/rc"; rm "$0/pid"' "$state" \
    ${BAKEOFF:-bakeoff} compare "$config" --out "$results" "${resume[@]}" --next-blocks "$blocks"
  until [ -e "$state/pid" ] || [ -e "$state/rc" ]; do sleep 0.1; done
}

hand_back() {
  # The server's log may grow meanwhile: tar says 1 then.
  tar -C "$results" -czf "$back/records.tar.gz" --exclude='*.parquet' --exclude='.*.part' . || [ $? -eq 1 ]
  for life in "$results"/lives/*/life.json; do
    [ -e "$life" ] || continue
    name=$(basename "$(dirname "$life")")
    [ -e "$state/$name.packed" ] && continue
    tar -C "$results" -cf - --exclude='*.json' "lives/$name" | split -b "${PIECE_MIB:-15}M" -d -a 3 - "$state/waiting/$name.tar."
    touch "$state/$name.packed"
  done
  for piece in $(find "$state/waiting" -type f | sort | head -n "${PIECES:-3}"); do mv "$piece" "$back/"; done
}

[ -e "$state/rc" ] || running || start
end=$((SECONDS + ${WAIT_S:-500}))
while running && [ $SECONDS -lt $end ]; do sleep 1; done
tail -n 40 "$state/log"
[ -e "$results/config.yaml" ] && hand_back
if running || [ -n "$(find "$state/waiting" -type f)" ]; then exit 75; fi
exit "$(cat "$state/rc")"
