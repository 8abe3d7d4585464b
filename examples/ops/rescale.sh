#!/usr/bin/env bash
# Give a running job another parallelism, with nothing lost and nothing doubled.
#
#   rescale.sh JOB PARALLELISM JOB.PY [PROGRAM ARGUMENTS...]
#
#   JOB             the running job: its id, the first digits of it, or its name (`pystate list`)
#   PARALLELISM     the new number of subtasks of each operator
#   JOB.PY          the program that runs; the rest goes to it, give what it was given
#
# Environment:
#   SAVEPOINT_DIR   where the savepoint goes; default: execution.checkpointing.savepoint-dir
#   RUN_OPTIONS     more options for `pystate run`
#
# `pystate rescale JOB -p PARALLELISM` does the same in one command, with the program, the arguments and the environment that the
# job was submitted with. This script is for a program or arguments that change with the parallelism.
#
# What happens: the program is tried with -p PARALLELISM on a savepoint of the running job (`pystate info -s`), which is deleted
# again; where it does not fit the job goes on as it was. PARALLELISM can't be above the max parallelism the state was made with
# (`pipeline.max-parallelism`, 128 for most jobs). Then the job is stopped with a savepoint and the same program is started from
# it with -p PARALLELISM: the state is spread anew over the subtasks. If that fails the job is started again as it was.
#
# stdout is the id of the job that runs now and nothing else. Exit code 0: it has the new parallelism; 1: it has not.

set -euo pipefail

usage() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

say() { printf '[rescale] %s\n' "$*" >&2; }

[ "$#" -ge 3 ] || usage
job=$1
parallelism=$2
program=$3
shift 3

case $parallelism in
    '' | *[!0-9]* | 0*) say "The parallelism must be a whole number from 1, not '$parallelism'. Nothing was done."; exit 2 ;;
esac
[ -f "$program" ] || { say "There is no file $program. Nothing was done."; exit 2; }

read -r -a run_options <<<"${RUN_OPTIONS:-}"

say "1/3 Trying parallelism $parallelism on a savepoint of job $job, which goes on."
if ! trial=$(pystate savepoint -type native --message "tried for a rescale" "$job" ${SAVEPOINT_DIR:+"$SAVEPOINT_DIR"}); then
    say "No savepoint was written. The job goes on as before."
    exit 1
fi
fits=yes
pystate info -s "$trial" ${run_options[@]+"${run_options[@]}"} -p "$parallelism" "$program" "$@" >&2 || fits=no
pystate savepoint -d "$trial" || say "The savepoint that was tried is left: $trial"
if [ "$fits" = no ]; then
    say "It does not fit; the reason is above. The job goes on as before."
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

start() { pystate run -d -s "$savepoint" ${run_options[@]+"${run_options[@]}"} "$@"; }

say "3/3 Starting $program from it with parallelism $parallelism."
if new_job=$(start -p "$parallelism" "$program" "$@"); then
    say "Done. Watch it: pystate checkpoints --watch $new_job"
    printf '%s\n' "$new_job"
    exit 0
fi

# Too few cores, or more subtasks than key groups: better the old parallelism than no job until somebody wakes up.
say "It did not start with parallelism $parallelism; the reason is above. Starting it without -p, as the program says."
if old_job=$(start "$program" "$@"); then
    say "Job $old_job runs, with the parallelism of the program or of the configuration. It was NOT rescaled."
    printf '%s\n' "$old_job"
    exit 1
fi
say "NO JOB RUNS NOW. Nothing is lost: start it by hand once the reason above is gone, with"
say "    pystate run -d -s $savepoint $program $*"
exit 1
