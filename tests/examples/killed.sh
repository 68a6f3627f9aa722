#!/usr/bin/env bash
# killed.sh PROGRAM: a trainer that is killed again and again ends in the bits of one that is not.
set -euo pipefail
program=$1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
epochs=60
"$program" "$here/whole" $epochs >"$here/whole.txt"

trained() { if [ -f "$here/parts/epochs.csv" ]; then wc -l <"$here/parts/epochs.csv"; else echo 0; fi; }
for kill in 1 2 3 4; do
    before=$(trained)
    "$program" "$here/parts" $epochs >/dev/null 2>&1 &
    process=$!
    while [ "$(trained)" -lt $((before + 3)) ] && kill -0 $process 2>/dev/null; do :; done
    kill -9 $process 2>/dev/null || true
    if wait $process 2>/dev/null; then
        echo "process $kill ended before it was killed" >&2
        exit 1
    fi
done
"$program" "$here/parts" $((epochs - 5)) >"$here/parts.txt" # and one that ends early, and goes on
"$program" "$here/parts" $epochs >"$here/parts.txt"
diff "$here/whole.txt" "$here/parts.txt"
cmp "$here/whole/best" "$here/parts/best"
