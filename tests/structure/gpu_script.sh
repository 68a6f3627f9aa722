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
says 2 'unknown argument --fast' "$gpu" --fast
says 2 '--out needs a value' "$gpu" --out
says 2 '--arch hopper: an architecture such as 90a' "$gpu" --bundle "$scratch/x.tar.gz" --arch hopper
says 2 '--arch 90a: an architecture such as 90a, with --bundle' "$gpu" --arch 90a
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
program "$bundle/bin/gpu_probe" <<'P'
[ "$1" = --check ] || exit 3
echo "GPU 0: NVIDIA H200, compute capability 9.0, 132 multiprocessors, 139.8 GiB"
echo 'driver: CUDA 13.0'
echo 'C library: glibc 2.36'
P
# The trainers, whose JSON has the numbers that the script reads.
program "$bundle/bin/gneiss-data" <<'P'
while [ "$1" != --out ]; do shift; done
mkdir "$2"
P
trainer() { # trainer NAME LOSS-ON-CUDA
    program "$bundle/bin/gneiss-$1" <<P
case "\$*" in *'--device cuda'*) loss=$2 of='"device": 0.5,' ;; *) loss=1.5 of='' ;; esac
case "\$*" in *--record*'--device cpu'*) exit 2 ;; esac # those flags are the GPU's
echo "{\"config\": {\"loss\": \"softmax\", \"device\": \"cuda\"}, \"epochs\": ["
case "\$*" in *'--epochs 3'*)
    for epoch in 1 2; do echo "{\"epoch\": \$epoch, \"seconds\": 3.0, \"loss\": 4.\$epoch, \"stage_seconds\": {\$of \"sample\": 0.1}},"; done ;;
esac
echo "{\"epoch\": 9, \"seconds\": 2.0, \"loss\": \$loss, \"stage_seconds\": {\$of \"sample\": 0.1}}], \"seconds\": 9.0}"
P
}
for one in marius mariusgnn ginex hanoi joestar; do trainer $one 1.501953125; done
program "$bundle/bin/test_gpu" <<<'echo "[doctest] test cases: 3 | 3 passed | 0 failed"'
program "$bundle/bin/gneiss-gpu-bench" <<'P'
case "$1" in ^\(bus*) echo '{"case": "bus", "ms": 1.5}' && exit ;; esac
echo '{"case": "copy", "ms": 0.5}'
echo '{"case": "aggregate", "row_bytes": 512, "ms": 0.25}'
printf '{"case": "cut'
P
tools=$scratch/found
export PATH=$tools:$PATH CUDA_HOME=$scratch
program "$tools/compute-sanitizer" <<'P'
case "$*" in *racecheck*two*) echo '========= ERROR: race in "scale"' && exit 9 ;; esac
P
program "$tools/ncu" <<'P'
case "$*" in *'--clock-control none'*) ;; *) exit 4 ;; esac
while [ "$1" != --log-file ]; do shift; done
echo '"0","1","bench","host","void scale<float, 4>(int, T1)","1","7","(256, 1, 1)","(1, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes_read.sum","byte","4,096"' >"$2"
P
run() { rm -rf "$scratch/out" && (cd "$scratch" && "$bundle/gpu" --out "$scratch/out" "$@"); }

says 1 'racecheck model/two: exit code 9' run
field 'NVIDIA H200' device
field 'CUDA 13.0' driver
field 123456789abc commit
field OFF emulated
# The order of value: what is measured first is there if time runs out.
at=0
for one in probe data 'trainer mariusgnn' 'trainer marius' 'trainer ginex' 'trainer hanoi' 'trainer joestar' figures 'parity model/one' \
    'parity model/two' 'memcheck model/one' 'memcheck model/two' 'racecheck model/one' 'racecheck model/two' benchmarks ncu; do
    field "$one" checks $at check
    case $one in racecheck*two) field failed checks $at result ;; *) field passed checks $at result ;; esac
    at=$((at + 1))
done
field mariusgnn trainers 0 trainer
field 1.5 trainers 0 cpu_loss
field 1.501953125 trainers 0 cuda_loss
field 0.25 trainers 0 busy_share
field joestar trainers 4 trainer
field 1.501953125 trainers 4 cuda_loss
field bus benchmarks 0 case
field aggregate benchmarks 2 case
field 4096 memory_traffic 0 value
field 'fedcba9876543210 sm_90 scale<float>' kernels 0
field '1111111111111111 sm_90a tile<"x">' kernels 1
[ "$(json benchmarks | grep -c '"case"')" = 3 ] || wrong 'a line that was cut is among the benchmarks'

program "$tools/compute-sanitizer" <<<'exit 0'
says 0 '0 failed, 3 cases timed, 2 kernels verified' run

# A minute: no figures, no sanitizers, no kernel is called verified.
says 0 '0 failed, 0 cases timed, 0 kernels verified' run --smoke
[ -n "$(echo "$scratch"/out/*-smoke.json)" ] || wrong 'no record of the minute'
field 'trainer marius' checks 3 check
field 'parity model/one' checks 4 check

# Losses that differ by more than 0.2 %, or are not there.
trainer marius 1.504
says 1 'losses differ: trainer: marius, cpu_loss: 1.5, cuda_loss: 1.504' run --smoke
trainer marius '"nan"'
says 1 'trainer marius: losses differ' run --smoke
trainer marius 1.5

program "$bundle/bin/test_gpu" <<<'case "$*" in *two*) echo "ERROR: CHECK( sum == 3 ) is NOT correct!" && exit 1 ;; esac'
says 1 'parity model/two: exit code 1' run
field '[]' kernels

program "$bundle/bin/test_gpu" <<<'echo "[doctest] test cases: 0 | 0 passed | 0 failed"'
says 1 'parity model/one: exit code 0, and no test ran' run

program "$bundle/bin/gpu_probe" <<<'echo "skipped: no GPU: the NVIDIA driver is for CUDA 11.4, CUDA 13.0 is needed" && exit 77'
says 77 'error: no GPU: the NVIDIA driver is for CUDA 11.4, CUDA 13.0 is needed' run
program "$bundle/bin/gpu_probe" <<<'echo "skipped: no GPU: no NVIDIA driver is installed" && exit 77'
says 77 'error: no GPU: no NVIDIA driver is installed' run
program "$bundle/bin/gpu_probe" <<<'echo "error: these programs have no code for this GPU: they were built for 90a-real" && exit 1'
says 1 'error: these programs have no code for this GPU: they were built for 90a-real' run
says 1 'a bundle only runs on a GPU' "$bundle/gpu" --emulated
program "$scratch/full/df" <<<'printf "Filesystem 1024-blocks Used Available\nx 100 90 10\n"'
says 1 '64 MiB are needed' env PATH="$scratch/full:$PATH" "$bundle/gpu" --out "$scratch/out"

[ $failures = 0 ]
