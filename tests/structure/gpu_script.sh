#!/usr/bin/env bash
# Tests scripts/gpu with stubs for the tests, the benchmarks and the tools: its messages if something is missing, and its
# record if tests pass, fail or take too long.
#   gpu_script.sh ROOT CMAKE
set -euo pipefail
root=$1 cmake=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0
wrong() { echo "FAILED: $*" && failures=$((failures + 1)); }

# says CODE TEXT COMMAND…
says() {
    local code=0 wanted=$1 text=$2
    shift 2
    "$@" >"$scratch/said" 2>&1 || code=$?
    [ "$code" = "$wanted" ] || wrong "exit code $code, not $wanted: $*: $(tail -3 "$scratch/said")"
    grep -qF -- "$text" "$scratch/said" || wrong "'$text' is not what it said: $(cat "$scratch/said")"
}
# json FIELD…: prints a field of the written file.
json() {
    local list
    list=$(printf '%s;' "$@")
    # shellcheck disable=SC2016 # a variable of CMake
    printf 'file(READ [[%s]] text)\nstring(JSON value GET "${text}" %s)\nmessage(NOTICE "${value}")\n' "$(echo "$scratch"/out/*.json)" "${list//;/ }" >"$scratch/get.cmake"
    "$cmake" -P "$scratch/get.cmake" 2>&1
}
# field WANTED FIELD…
field() {
    local wanted=$1 found
    shift
    found=$(json "$@")
    [ "$found" = "$wanted" ] || wrong "$* is '$found', not '$wanted'"
}
# program PATH: writes a script from stdin.
program() {
    mkdir -p "$(dirname "$1")"
    { echo '#!/usr/bin/env bash' && cat; } >"$1"
    chmod +x "$1"
}

gpu=$root/scripts/gpu
export GNEISS_TEST_SYSTEM=$scratch/system
says 2 'unknown argument --fast' "$gpu" --fast
says 2 '--out needs a value' "$gpu" --out
says 1 'no NVIDIA driver is installed' "$gpu" --out "$scratch/out"
mkdir -p "$GNEISS_TEST_SYSTEM/proc/driver/nvidia"
echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build' >"$GNEISS_TEST_SYSTEM/proc/driver/nvidia/version"
mkdir "$scratch/tools"
for one in bash dirname sed df awk mkdir head tr cat; do ln -s "$(command -v $one)" "$scratch/tools/$one"; done
says 1 'nvcc was not found' env PATH="$scratch/tools" CUDA_HOME="$scratch" "$gpu" --out "$scratch/out"

# A bundle.
bundle=$scratch/gneiss-gpu
mkdir -p "$bundle/bin" "$bundle/lib"
cp "$gpu" "$bundle/gpu"
printf 'simt/model/one.cpp\nsimt/model/two.cpp\n' >"$bundle/tests"
printf '0123456789abcdef sm_80 scale<float>\nfedcba9876543210 sm_90 scale<float>\n1111111111111111 sm_90a tile<"x">\n' >"$bundle/kernels"
echo 123456789abc >"$bundle/commit"
program "$bundle/bin/gpu_probe" <<<'echo "GPU 0: NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.8 GiB"'
program "$bundle/bin/test_gpu" <<<'echo "[doctest] test cases: 3 | 3 passed | 0 failed"'
program "$bundle/bin/gneiss-gpu-bench" <<'P'
echo '{"case": "copy", "ms": 0.5}'
echo '{"case": "aggregate", "row_bytes": 512, "ms": 0.25}'
printf '{"case": "cut'
P
program "$bundle/tools/compute-sanitizer/compute-sanitizer" <<'P'
case "$*" in *racecheck*two*) echo '========= ERROR: race in "scale"' && exit 9 ;; esac
P
program "$bundle/tools/ncu/ncu" <<'P'
while [ "$1" != --log-file ]; do shift; done
echo '"0","1","bench","host","void scale<float, 4>(int, T1)","1","7","(256, 1, 1)","(1, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes_read.sum","byte","4,096"' >"$2"
P
run() { rm -rf "$scratch/out" && (cd "$scratch" && "$bundle/gpu" --out "$scratch/out"); }

says 1 'racecheck model/two: exit code 9' run
field 'NVIDIA H200' device
field 580.65.06 driver
field 123456789abc commit
field OFF emulated
field passed checks 0 result
field 'parity model/two' checks 1 check
field benchmarks checks 2 check
field failed checks 7 result
field aggregate benchmarks 1 case
field 4096 memory_traffic 0 value
field 'fedcba9876543210 sm_90 scale<float>' kernels 0
field '1111111111111111 sm_90a tile<"x">' kernels 1
[ "$(json benchmarks | grep -c '"case"')" = 2 ] || wrong 'a line that was cut is among the benchmarks'

program "$bundle/tools/compute-sanitizer/compute-sanitizer" <<<'exit 0'
says 0 '0 failed, 2 cases timed, 2 kernels verified' run

program "$bundle/bin/test_gpu" <<<'case "$*" in *two*) echo "ERROR: CHECK( sum == 3 ) is NOT correct!" && exit 1 ;; esac'
says 1 'parity model/two: exit code 1' run
field '[]' kernels

program "$bundle/bin/test_gpu" <<<'echo "[doctest] test cases: 0 | 0 passed | 0 failed"'
says 1 'parity model/one: exit code 0, and no test ran' run

program "$bundle/bin/gpu_probe" <<<'echo "skipped: no GPU: the NVIDIA driver is for CUDA 11.4, CUDA 13.0 is needed" && exit 77'
says 1 'error: no GPU: the NVIDIA driver is for CUDA 11.4, CUDA 13.0 is needed' run
says 1 'a bundle only runs on a GPU' "$bundle/gpu" --emulated
program "$scratch/full/df" <<<'printf "Filesystem 1024-blocks Used Available\nx 100 90 10\n"'
says 1 '64 MiB are needed' env PATH="$scratch/full:$PATH" "$bundle/gpu" --out "$scratch/out"

[ $failures = 0 ]
