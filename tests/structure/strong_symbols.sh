#!/usr/bin/env bash
# strong_symbols.sh OBJECT: fails with the names of functions and objects that OBJECT defines for the whole program and not weakly:
# a second unit with the same headers would define them, too.
set -euo pipefail
weak=$(nm --defined-only --extern-only "$1" | awk '$2 ~ /^[WVu]$/' | wc -l)
strong=$(nm --defined-only --extern-only --demangle "$1" | awk '$2 !~ /^[WVu]$/')
if [ -n "$strong" ]; then echo "defined in each unit that includes them:" && echo "$strong" && exit 1; fi
echo "$weak weak symbols, no other"
[ "$weak" -gt 0 ]
