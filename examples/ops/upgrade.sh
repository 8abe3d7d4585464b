#!/usr/bin/env bash
# Replace a running job by a new version of its program, with nothing lost and nothing doubled.
#
#   upgrade.sh JOB NEW_JOB.PY [PROGRAM ARGUMENTS...]
#
#   JOB             the running job: its id, the first digits of it, or its name (`pystate list`)
#   NEW_JOB.PY      the new program
#   the rest        goes to the program; give what the old one was given
#
# Environment:
#   SAVEPOINT_DIR   where the savepoint goes; default: execution.checkpointing.savepoint-dir
#   RUN_OPTIONS     more options for `pystate run`, such as "-p 4" or "-n"
#
# What happens:
#   1. The new program is tried on a savepoint of the running job, which goes on: `pystate info -s` compares operators, key
#      types, parallelism and sources. What does not fit is told, and nothing has changed. That savepoint is deleted again.
#   2. The job is stopped with a savepoint. If the savepoint fails, the old job simply goes on, and nothing has changed.
#   3. The new program starts from that savepoint. If it can't, nothing runs, and this script says how to start the old
#      program again from the same savepoint. Nothing is lost meanwhile: the savepoint also holds the sources' positions.
#
# stdout is the id of the new job and nothing else.

set -euo pipefail

usage() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

say() { printf '[upgrade] %s\n' "$*" >&2; }

[ "$#" -ge 2 ] || usage
job=$1
program=$2
shift 2

# A missing file must not be found out only when the old job is gone.
[ -f "$program" ] || { say "There is no file $program. Nothing was done."; exit 2; }

read -r -a run_options <<<"${RUN_OPTIONS:-}"

say "1/3 Trying $program on a savepoint of job $job, which goes on."
# ${...:+...} leaves the directory out where none is given; `pystate savepoint` prints the path alone on stdout.
if ! trial=$(pystate savepoint -type native --message "tried for an upgrade" "$job" ${SAVEPOINT_DIR:+"$SAVEPOINT_DIR"}); then
    say "No savepoint was written. The job goes on as before."
    exit 1
fi
fits=yes
pystate info -s "$trial" ${run_options[@]+"${run_options[@]}"} "$program" "$@" >&2 || fits=no
pystate savepoint -d "$trial" || say "The savepoint that was tried is left: $trial"
if [ "$fits" = no ]; then
    say "The new program does not fit; the reason is above. The job goes on as before."
    exit 1
fi

say "2/3 Stopping job $job with a savepoint."
if ! savepoint=$(pystate stop ${SAVEPOINT_DIR:+-p "$SAVEPOINT_DIR"} "$job"); then
    if [ -n "$savepoint" ]; then
        say "The savepoint is written, but the job did not end in order: look at it with pystate list -a."
        say "Savepoint: $savepoint"
    else
        say "No savepoint was written. The job goes on as before; see it with: pystate list"
    fi
    exit 1
fi
say "Savepoint: $savepoint"

say "3/3 Starting $program from it."
# -d returns once the new job has its state back, so that a program that doesn't fit fails here and not later.
if ! new_job=$(pystate run -d -s "$savepoint" ${run_options[@]+"${run_options[@]}"} "$program" "$@"); then
    say "THE NEW PROGRAM DID NOT START, AND NO JOB RUNS NOW. The reason is above."
    say "To go back, start the OLD program from the same savepoint, with its arguments:"
    say "    pystate run -d -s $savepoint OLD_JOB.PY ..."
    say "If the new program gave up a stateful step on purpose, run it with -n, which leaves that state behind."
    exit 1
fi

say "Done. Watch it: pystate checkpoints --watch $new_job"
say "Keep the savepoint until the new job has shown its worth; it is the way back: $savepoint"
printf '%s\n' "$new_job"
