#!/usr/bin/env bash
# Checks that C++ and CUDA are as clang-format writes them, and that no line has more than 120 columns.
#
#   format.sh [ROOT]        files to format and long lines; exit 1 if there is one, 77 without clang-format 19
#   format.sh --fix [ROOT]  formats them
set -euo pipefail
export LC_ALL=C.UTF-8
fix=false
if [ "${1:-}" = --fix ]; then fix=true && shift; fi
cd "${1:-$(dirname "$0")/../..}"
# Other versions format some lines in another way.
format=clang-format-19
if ! command -v $format >/dev/null; then echo "format was not checked: $format is not installed" && exit 77; fi
files=$(find include examples python tests bench cmake test_package -name '*.hpp' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' |
    grep -v /corpus)
if $fix; then xargs -P "$(nproc)" -n 40 $format -i <<<"$files" && exit; fi
violations=$(
    xargs -P "$(nproc)" -n 40 $format --dry-run <<<"$files" 2>&1 | grep -F '[-Wclang-format-violations]' | cut -d: -f1 | sort -u |
        sed 's/$/: is not formatted (tests\/structure\/format.sh --fix)/'
    # Expected errors are sentences of the compiler: one line each.
    xargs grep -L 'clang-format off' <<<"$files" | xargs grep -nE '^.{121,}' | grep -vE '^[^:]*:[0-9]*:// error[^:]*: ' | cut -d: -f1,2 | sed 's/$/: has more than 120 columns/'
) || true
[ -z "$violations" ] || { echo "$violations" && exit 1; }
echo "$(wc -l <<<"$files") files are formatted"
