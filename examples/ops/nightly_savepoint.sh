#!/usr/bin/env bash
# Take a savepoint of a running job and keep the last few. Made for cron:
#
#   15 3 * * *  /opt/jobs/nightly_savepoint.sh "word count" /backup/word-count 7
#
#   nightly_savepoint.sh JOB DIR [KEEP]
#
#   JOB    the running job. Its name is best here: a job that is stopped and resumed has another id.
#   DIR    a local folder (or a mounted one) for the savepoints of THIS job alone
#   KEEP   how many savepoints stay; default 7
#
# What happens: the job goes on while the savepoint is written. Only when the new one is complete, old ones beyond
# KEEP are deleted, the oldest first. Folders that aren't savepoints are never touched. If the savepoint fails nothing
# is deleted, and the exit code is not 0, so that cron sends a mail.
#
# Never start a job that has checkpointing off from one of them without copying it first: such a job goes back to its
# starting savepoint after a failure, and KEEP nights later that one would be deleted.
#
# To go back to one of them:  pystate run -d -s DIR/savepoint-... JOB.PY ...
#
# stdout is the path of the new savepoint and nothing else.

set -euo pipefail

usage() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

say() { printf '[nightly savepoint] %s\n' "$*" >&2; }

[ "$#" -ge 2 ] && [ "$#" -le 3 ] || usage
job=$1
directory=$2
keep=${3:-7}

case $keep in
    '' | *[!0-9]* | 0*) say "KEEP must be a whole number from 1, not '$keep'. Nothing was done."; exit 2 ;;
esac
case $directory in
    *://*) say "DIR must be a local folder, not $directory: this script deletes old savepoints with rm."; exit 2 ;;
esac
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

# Two at once would count each other's savepoints; the one that comes second leaves. mkdir is atomic everywhere.
lock="$directory/.nightly-savepoint.lock"
if ! mkdir "$lock" 2>/dev/null; then
    say "Another run is at work, or was killed. If none runs: rmdir '$lock'"
    exit 1
fi
trap 'rmdir "$lock"' EXIT

# set -e ends the script here if the savepoint fails: nothing below is reached, nothing is deleted.
savepoint=$(pystate savepoint "$job" "$directory")
say "Savepoint: $savepoint"

# Trust, but look: a savepoint without _metadata can't be restored, and is no reason to delete one that can.
path=${savepoint#file://}
path=${path#file:}
[ -s "$path/_metadata" ] || { say "There is no $path/_metadata. Nothing was deleted."; exit 1; }

# The newest first, by the time their _metadata was written, which is the last thing a savepoint writes.
number=0
for metadata in $(cd "$directory" && ls -1t savepoint-*/_metadata); do
    number=$((number + 1))
    if [ "$number" -gt "$keep" ]; then
        old="$directory/${metadata%/_metadata}"
        say "Deleting $old"
        rm -rf -- "$old"
    fi
done

printf '%s\n' "$savepoint"
