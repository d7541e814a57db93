#!/usr/bin/env bash
# Ends what a test process has started, when that process is gone, however it ended. Standard input is a pipe that only the
# test process writes to, lines with tabs between:
#
#   pid KEY PID          a process, to be killed
#   run KEY COMMAND...   a service, which COMMAND ends
#   end KEY              it has ended
#
# KEY is a number.
trap '' INT TERM HUP QUIT # who ends the test means the test

pids=() runs=()
while IFS=$'\t' read -r what key rest; do
  case $what in
    pid) pids[key]=$rest ;;
    run) runs[key]=$rest ;;
    end) unset "pids[key]" "runs[key]" ;;
  esac
done
# Programs first: one of them may be starting a service.
for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null; done
for service in "${runs[@]}"; do
  IFS=$'\t' read -r -a command <<<"$service"
  "${command[@]}" &
done
wait
