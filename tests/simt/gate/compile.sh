#!/usr/bin/env bash
# Compiles the kernels of SOURCE for ARCHITECTURE to OUT.ptx and OUT.cubin, and keeps what ptxas says in OUT.log: the gate
# judges spills and local memory, kernel by kernel. OUT.d has what SOURCE includes.
#   compile.sh NVCC INCLUDE SOURCE ARCHITECTURE OUT
set -euo pipefail
nvcc=$1 include=$2 source=$3 architecture=$4 out=$5
mkdir -p "$(dirname "$out")"
"$nvcc" -std=c++20 -I "$include" -arch="$architecture" -ptx -MD -MF "$out.d" -MT "$out.log" "$source" -o "$out.ptx"
if ! "$(dirname "$nvcc")/ptxas" -arch="$architecture" -v --warn-on-spills --warn-on-local-memory-usage \
    "$out.ptx" -o "$out.cubin" >"$out.new" 2>&1; then
    cat "$out.new" >&2
    exit 1
fi
mv "$out.new" "$out.log"
