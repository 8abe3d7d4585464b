#!/usr/bin/env bash
# Try two programs side by side (A/B, what-if): start both from one savepoint of a running job, which goes on.
#
#   fork.sh JOB A.PY B.PY [PROGRAM ARGUMENTS...]
#
#   JOB             the running job: its id, the first digits of it, or its name (`pystate list`)
#   A.PY, B.PY      the two programs; the same file twice, if its arguments or FORK tell it what to do
#   the rest        goes to both programs
#
# Environment:
#   SAVEPOINT       the id or the path of a savepoint to start from, instead of a new one of JOB
#   SAVEPOINT_DIR   where the new savepoint goes; default: execution.checkpointing.savepoint-dir
#   RUN_OPTIONS     more options for `pystate run`, such as "-p 4" or "-n"
#   each program finds FORK=a or FORK=b in its environment: have it write to a place of its own
#
# What happens:
#   1. A savepoint of JOB is taken. JOB goes on as before.
#   2. Both programs are tried on it (`pystate info -s`). Where one does not fit nothing is started.
#   3. A and B start from it. Each has its state, its source positions and its checkpoints to itself from there on: they
#      share nothing but the savepoint, which neither of them changes. If B can't start, A is cancelled again.
#
# stdout is the ids of both jobs, a line each, and nothing else. `pystate savepoints tree` shows the branches once the
# jobs take savepoints of their own.

set -euo pipefail

usage() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

say() { printf '[fork] %s\n' "$*" >&2; }

[ "$#" -ge 3 ] || usage
job=$1
program_a=$2
program_b=$3
shift 3

for program in "$program_a" "$program_b"; do
    [ -f "$program" ] || { say "There is no file $program. Nothing was done."; exit 2; }
done

read -r -a run_options <<<"${RUN_OPTIONS:-}"

if [ -n "${SAVEPOINT:-}" ]; then
    savepoint=$SAVEPOINT
    say "1/3 Taking the savepoint that is there: $savepoint"
else
    say "1/3 Taking a savepoint of job $job, which goes on."
    # ${...:+...} leaves the directory out where none is given; `pystate savepoint` prints the path alone on stdout.
    if ! savepoint=$(pystate savepoint --message "fork" "$job" ${SAVEPOINT_DIR:+"$SAVEPOINT_DIR"}); then
        say "No savepoint was written, and nothing was started."
        exit 1
    fi
    say "Savepoint: $savepoint"
fi

say "2/3 Trying $program_a and $program_b on it."
for which in a b; do
    program=$program_a
    [ "$which" = a ] || program=$program_b
    if ! FORK=$which pystate info -s "$savepoint" ${run_options[@]+"${run_options[@]}"} "$program" "$@" >&2; then
        say "$program does not fit the savepoint; the reason is above. Nothing was started."
        exit 1
    fi
done

# start WHICH PROGRAM ARGUMENTS...: -d returns once the job has its state back
start() {
    FORK=$1 pystate run -d -s "$savepoint" ${run_options[@]+"${run_options[@]}"} "${@:2}"
}

say "3/3 Starting $program_a and $program_b from it."
if ! job_a=$(start a "$program_a" "$@"); then
    say "$program_a did not start; the reason is above. No fork runs."
    exit 1
fi
if ! job_b=$(start b "$program_b" "$@"); then
    say "$program_b did not start; the reason is above. Cancelling $job_a, so that no half of a fork runs."
    pystate cancel "$job_a"
    exit 1
fi

say "Done. When you have seen enough, end one of them: pystate cancel $job_a, or pystate cancel $job_b"
printf '%s\n%s\n' "$job_a" "$job_b"
