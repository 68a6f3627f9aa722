#!/usr/bin/env bash
# Tests check.sh, words.sh, pages.sh and format.sh: valid trees pass, and every violation planted in one is reported with its place and counted. Plants
# that do not touch each other share a tree and a run.
set -euo pipefail
check=$(cd "$(dirname "$0")" && pwd)/check.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# put FILE LINES…: writes a header of the planted tree.
put() {
    local file=$scratch/tree/include/gneiss/$1
    shift
    mkdir -p "$(dirname "$file")"
    printf '%s\n' '// SPDX-License-Identifier: Apache-2.0' '#pragma once' "$@" >"$file"
}

tree_in_order() {
    rm -rf "$scratch/tree"
    put gneiss.hpp '#include <gneiss/core/a.hpp>' '#include <gneiss/order/plan.hpp>' '#include <gneiss/storage/s.hpp>' \
        '#include <gneiss/model/concepts.hpp>' '#include <gneiss/train/p.hpp>' '#include <gneiss/core/checksum.hpp>'
    put core/a.hpp '#include <vector>'
    put core/checksum.hpp '#include <xxhash.h>'
    put order/plan.hpp '#include <gneiss/core/a.hpp>'
    put storage/s.hpp '#include <sys/mman.h>' '#include <gneiss/order/plan.hpp>'
    put storage/engine/uring.hpp '#include <liburing.h>'
    put storage/io/file.hpp '#include <gneiss/storage/engine/uring.hpp>'
    put storage/edge/e.hpp '#include <gneiss/storage/io/file.hpp>'
    put model/concepts.hpp
    put model/detail/eigen_products.hpp '#include <Eigen/Core>' '#include <gneiss/model/concepts.hpp>'
    put io/detail/manifest_json.hpp '#include <nlohmann/json.hpp>'
    put train/p.hpp '#include <gneiss/model/concepts.hpp>' '#include <gneiss/order/plan.hpp>'
    put cuda/device_api.cuh '#include <simt/emulator.hpp>' '#include <cuda_runtime.h>'
    put cuda/order/plan.cuh '#include <gneiss/cuda/device_api.cuh>' '#include <gneiss/order/plan.hpp>'
}

checker=$check
expected=() # reports of the plants since the last run
plants=0
# passes ARGUMENTS…: the tree is valid.
passes() { "$checker" "$@" "$scratch/tree" || failures=$((failures + 1)); }
# caught: reports all plants of the tree with an exit code, and counts each line that it reports.
caught() {
    local report lines
    if "$checker" "$scratch/tree" >"$scratch/said"; then
        echo "not caught: ${expected[0]}" && failures=$((failures + 1))
    fi
    for report in "${expected[@]}"; do
        grep -qF "$report" "$scratch/said" && continue
        echo "expected: $report" && cat "$scratch/said" && failures=$((failures + 1))
    done
    lines=$(wc -l <"$scratch/said")
    if ! tail -n 1 "$scratch/said" | grep -q "^$((lines - 1)) violations of the "; then
        echo 'wrong number of violations:' && cat "$scratch/said" && failures=$((failures + 1))
    fi
    plants=$((plants + ${#expected[@]}))
    expected=()
}
# plant FILE LINE REPORT: adds a line to a header, in which the next run must find it.
plant() {
    local file=$scratch/tree/include/gneiss/$1
    echo "$2" >>"$file"
    expected+=("include/gneiss/$1:$(wc -l <"$file"): $3")
}

tree_in_order
passes
passes --without-cuda
put core/a.hpp '#include <gneiss/cuda/device_api.cuh>'
if "$check" --without-cuda "$scratch/tree" >"$scratch/said"; then
    echo "not caught: a dependency on cuda/" && failures=$((failures + 1))
fi

# A whole tree, with everything that is checked.
whole_tree() {
    tree_in_order
    cd "$scratch/tree"
    put gneiss.hpp "$(grep include include/gneiss/gneiss.hpp)" '#include <gneiss/version.hpp>'
    put version.hpp '#define GNEISS_VERSION_MAJOR 1' '#define GNEISS_VERSION_MINOR 20' '#define GNEISS_VERSION_PATCH 3'
    mkdir -p packaging/vcpkg/ports/gneiss examples/recipes tests/simt/order tests/structure scripts
    touch CMakeLists.txt
    printf '%s\n' '# Changelog' '## Unreleased' '## 1.20.3 - 2030-01-01' '## 1.20.2 - 2029-01-01' >CHANGELOG.md
    printf '%s\n' 'cff-version: 1.2.0' 'version: 1.20.3' >CITATION.cff
    printf '%s\n' 'class Gneiss(ConanFile):' '    version = "1.20.3"' >conanfile.py
    printf '%s\n' '{' '  "version": "1.20.3",' '}' >packaging/vcpkg/ports/gneiss/vcpkg.json
    put cuda/order/plan.cuh '__global__ void f() {}' '#include <gneiss/cuda/device_api.cuh>'
    echo '#include <gneiss/cuda/order/plan.cuh>' >tests/simt/order/plan.cu
    echo 'int main() {}' >examples/00_hello.cpp
    printf '%s\n' '```cpp' 'int main() {}' '```' '```cpp' 'int other;' '```' >README.md
    printf '%s\n' "# The paper's figure, not ours: never run." "# Expected: the paper's .5" >examples/recipes/a.toml
    put core/a.hpp '/// An a.' '///' '///     a x(1); // one' '///     x.b();' 'struct a {};' '// of the coo format.'
    printf '%s\n' '// core/a.hpp' 'void f() {' '    //<' '    a x(1); // one' '    x.b();' '    //>' '}' >tests/structure/snippets.cpp
    cd - >/dev/null
}
whole_tree
passes

up='which is not below it'
plant core/a.hpp '#include <gneiss/order/plan.hpp>' "includes <gneiss/order/plan.hpp>, $up"
plant order/plan.hpp '#include <gneiss/storage/s.hpp>' "includes <gneiss/storage/s.hpp>, $up"
plant storage/s.hpp '#include <gneiss/model/concepts.hpp>' "includes <gneiss/model/concepts.hpp>, $up"
plant model/concepts.hpp '#include <gneiss/storage/s.hpp>' "includes <gneiss/storage/s.hpp>, $up"
plant train/p.hpp '#include <gneiss/storage/s.hpp>' "includes <gneiss/storage/s.hpp>, $up"
plant storage/io/file.hpp '#include <gneiss/storage/edge/e.hpp>' "includes <gneiss/storage/edge/e.hpp>, $up"
plant storage/s.hpp '#include <gneiss/cuda/order/plan.cuh>' "includes <gneiss/cuda/order/plan.cuh>, $up"
plant cuda/order/plan.cuh '#include <gneiss/storage/s.hpp>' "includes <gneiss/storage/s.hpp>, $up"
plant core/a.hpp '#include <gneiss/cuda/device_api.cuh>' "includes <gneiss/cuda/device_api.cuh>, $up"
plant gneiss.hpp '#include <gneiss/cuda/order/plan.cuh>' "includes <gneiss/cuda/order/plan.cuh>, $up"
plant core/a.hpp '#include <gneiss/core/gone.hpp>' 'includes <gneiss/core/gone.hpp>, which does not exist'
plant core/a.hpp '#include "b.hpp"' 'includes "b.hpp", not <gneiss/…>'
for fenced in liburing.h Eigen/Dense tbb/parallel_for.h oneapi/tbb.h xxhash.h nlohmann/json.hpp zlib.h metis.h cuda_runtime.h \
    simt/emulator.hpp CLI/CLI.hpp fmt/core.h boost/any.hpp; do
    plant storage/s.hpp "#  include <$fenced>" "includes <$fenced>, which is fenced to"
done
for talk in 'std::cout << 1;' 'std::cerr << 1;' 'std::printf("x");' 'fprintf(stderr, "x");' 'puts("x");' 'getenv("HOME");'; do
    plant core/a.hpp "inline void f() { $talk }" 'prints or reads the environment'
done
plant core/a.hpp 'inline int* f() { return new int; }' 'owns by a raw new'
plant core/a.hpp 'inline void f(auto& thread) { thread.detach(); }' 'detaches a thread'
plant core/a.hpp 'struct b { friend auto operator<=>(b, b) = default; };' 'has a default <=> without a default =='
mapfile -t long < <(yes '//' | head -500)
put core/long.hpp "${long[@]}"
put train/trainers/detail/hanoi.hpp "${long[@]:0:79}"
put cuda/order/ungated.cuh '__global__ void f() {}'
echo '// nothing' >"$scratch/tree/include/gneiss/core/many.hpp"
echo '#pragma once' >"$scratch/tree/include/gneiss/core/unlicensed.hpp"
echo 'int main() { return 0; }' >"$scratch/tree/examples/00_hello.cpp"
mkdir -p "$scratch/tree/examples/programs"
printf '%s\n' 'f(static_cast<std::uint32_t>(flags.steps));' 'f(static_cast<unsigned>(of.how.threads.value_or(0)));' \
    'f(static_cast<int>(negatives->count));' 'f(static_cast<std::uint64_t>(flags.steps));' 'f(static_cast<float>(o.rate));' \
    'f(static_cast<std::uint32_t>(o.model().floats()));' >"$scratch/tree/examples/programs/a.cpp"
sed -i 1d "$scratch/tree/examples/recipes/a.toml"
sed -i 's/x\.b/x.c/' "$scratch/tree/tests/structure/snippets.cpp"
expected+=('include/gneiss/core/long.hpp:502: is longer than 500 lines'
    "include/gneiss/train/trainers/detail/hanoi.hpp:81: is a design's page of choices, and longer than 80 lines"
    'include/gneiss/cuda/order/ungated.cuh:1: has kernels that no .cu file of tests/simt includes'
    'include/gneiss/core/many.hpp:1: has no #pragma once'
    'include/gneiss/core/unlicensed.hpp:1: does not begin with its license (SPDX)'
    'examples/programs/a.cpp:1: casts the value of a flag' 'examples/programs/a.cpp:2: casts the value of a flag'
    'examples/programs/a.cpp:3: casts the value of a flag'
    'README.md:1: its first C++ is not a passage of examples/00_hello.cpp'
    "examples/recipes/a.toml:1: expects a paper's figure"
    'tests/structure/snippets.cpp:3: the snippet is not in a comment of include/gneiss/core/a.hpp')
caught

tree_in_order # without a folder of tests
put cuda/order/plan.cuh '__global__ void f() {}'
put core/new.hpp
plant storage/s.hpp '#include <gneiss/storage/engine/uring.hpp>' ''
expected=('include/gneiss/gneiss.hpp:1: needs an option: uring' 'include/gneiss/gneiss.hpp:1: does not include core/new.hpp'
    'include/gneiss/cuda/order/plan.cuh:1: has kernels that no .cu file of tests/simt includes')
caught

# Includes of train/slots.hpp: itself not counted, each header once.
few() {
    tree_in_order
    local header includes=()
    for header in $(seq "$1"); do
        put "core/few_$header.hpp"
        includes+=("#include <gneiss/core/few_$header.hpp>")
    done
    put core/few.hpp "${includes[@]}" '#include <gneiss/core/few_1.hpp>'
    put train/slots.hpp '#include <gneiss/core/few.hpp>'
    put gneiss.hpp "$(grep include "$scratch/tree/include/gneiss/gneiss.hpp")" '#include <gneiss/core/few.hpp>' "${includes[@]}"
}
few 29
passes
few 30
expected=('include/gneiss/train/slots.hpp:1: includes 31 headers of gneiss, directly or not; 30 are allowed')
caught

# Files with another version, or gone.
places=(CHANGELOG.md:3 CITATION.cff:2 conanfile.py:2 packaging/vcpkg/ports/gneiss/vcpkg.json:2)
for other in 1.20.4 1.20.30 11.20.3 ''; do
    whole_tree
    for place in "${places[@]}"; do
        if [ -n "$other" ]; then
            sed -i "s/1\.20\.3/$other/" "$scratch/tree/${place%:*}"
        else
            rm "$scratch/tree/${place%:*}" && place=${place%:*}:1
        fi
        expected+=("$place: does not show version 1.20.3, which include/gneiss/version.hpp states")
    done
    caught
done

# Words.
checker=${check%check.sh}words.sh
# shellcheck disable=SC2016 # backquotes of Markdown
words_in_order() {
    whole_tree
    printf '%s\n' 'Of 0.27 and version 1.20.3, a.5, `--lr .2`, `over two' 'lines .3` and' '' '    f(.5);' '' '| .x | `.5` |' '' 'at `--lr .2` 3.1 s/epoch' \
        '```' 'f(.5);' '```' >>"$scratch/tree/README.md"
}
words_in_order
passes
plant core/a.hpp '// TO''DO' 'leaves something to be done'
plant train/p.hpp '// Wh''ether it is' 'the comment opens with a clause, not with what the thing is or does'
echo '// FIX''ME' >"$scratch/tree/tests/a.cpp"
echo 'what a neigh''bour to''ld' >>"$scratch/tree/README.md"
# shellcheck disable=SC2016 # backquotes of Markdown
printf '%s\n' 'about .27' '| `.5` | −.3 |' '2.5 s an epoch' >>"$scratch/tree/README.md"
figure='has a figure without a digit before its point'
expected+=('tests/a.cpp:1: leaves something to be done' 'README.md:18: has a retired word: what a neigh''bour to''ld'
    "README.md:19: $figure" "README.md:20: $figure" 'README.md:21: has a time of an epoch that is not in s/epoch')
if command -v codespell >/dev/null; then
    plant core/a.hpp '// It is sep''erate from the others' 'is misspelled: sep''erate, correct: separate'
    echo '# the col''our' >"$scratch/tree/scripts/run"
    expected+=('scripts/run:1: is misspelled: col''our, correct: color')
fi
caught

# Pages.
checker=${check%check.sh}pages.sh
# shellcheck disable=SC2016 # backquotes of Markdown
pages_in_order() {
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/docs/guide" "$scratch/tree/examples"
    printf '%s\n' 'int main() {' '    int v = 0;' '    return v;' '}' >"$scratch/tree/examples/a.cpp"
    printf '%s\n' '# Top' '' '## Again' '## A `name`, and [a link](docs/a.md)' '## Again' '' '    [code](gone.md)' '' '```' '[code](gone.md)' '```' \
        '[one](docs/a.md#first-part) [two](docs/guide/) [three](#again-1) [four](#a-name-and-a-link) [web](https://x.invalid)' \
        "| $(printf 'ü%.0s' {1..200}) |" "$(printf 'ü%.0s' {1..120})" '`docs/a.md`' \
        '```cpp' 'int v = 0;' 'return v;' '```' >"$scratch/tree/README.md"
    printf '%s\n' '## First part' '- [up](../README.md#top)' '    - [in a list](guide)' >"$scratch/tree/docs/a.md"
}
# plant_page LINE REPORT LINES…: adds lines to docs/a.md, the given one of which the next run must report.
plant_page() {
    local page=$scratch/tree/docs/a.md
    expected+=("docs/a.md:$(($(wc -l <"$page") + $1)): $2")
    shift 2
    printf '%s\n' "$@" >>"$page"
}
pages_in_order
passes
plant_page 1 'links to README.md, which does not exist' '[x](README.md)'
plant_page 1 'links to ../../b, which does not exist' '[x](../../b)'
plant_page 1 'links to #second-part, but docs/a.md has no such heading' '[x](#second-part)'
plant_page 2 'links to ../README.md#again-2, but README.md has no such heading' '' '[y](a.md) [x](../README.md#again-2)'
plant_page 5 'links to gone.md, which does not exist' '' '    [code](gone.md)' '' '    - [in a list](guide) [x](gone.md)' '[x](gone.md)'
plant_page 3 'the block of C++ is not part of a program' 'x' '' '```cpp' 'return 2;' '```'
plant_page 1 'the block of C++ is not part of a program' '```cpp' 'int main() {' 'return' '```'
plant_page 1 'the block of C++ is not part of a program' '  ```cpp' '  return 3;' '  ```'
plant_page 1 'a block of code is of cmake, console, cpp, python or sh' '```c++' 'return 4;' '```'
plant_page 2 'C++ that is in no block of C++' '```' 'return 5;' '```'
plant_page 3 'C++ that is in no block of C++' 'x' '' '    return 6;' ''
plant_page 1 'has 121 columns; 120 are allowed' "$(printf 'ü%.0s' {1..121})"
# shellcheck disable=SC2016
plant_page 1 'names docs/gone.md, which does not exist' 'see `docs/gone.md`'
# shellcheck disable=SC2016
plant_page 1 'names include/gneiss/core/gone.hpp, which does not exist' 'see `core/gone.hpp`, `gone.hpp`'
plant_page 1 'a heading that is not ASCII' '## ü'
only=${#expected[@]}
caught
if ! grep -q "^$only violations" "$scratch/said"; then
    echo 'reported more than the plants:' && cat "$scratch/said" && failures=$((failures + 1))
fi

# The format, where its program is installed.
if command -v clang-format-19 >/dev/null; then
    rm -rf "$scratch/tree"
    mkdir -p "$scratch"/tree/{include,examples,python,tests,bench,cmake,test_package}
    cp "$(dirname "$check")/../../.clang-format" "$scratch/tree"
    formatted=$(dirname "$check")/format.sh
    printf '%s\n' 'int twice(int v) { return 2 * v; }' "/// $(printf 'ü%.0s' {1..116})" >"$scratch/tree/tests/a.cpp"
    "$formatted" "$scratch/tree" >/dev/null || { echo 'refuses formatted code' && failures=$((failures + 1)); }
    printf '%s\n' 'int  half(int v) { return v / 2; }' >"$scratch/tree/tests/b.cpp"
    printf '%s\n' "/// $(printf 'ü%.0s' {1..117})" >"$scratch/tree/bench/c.cpp"
    plants=$((plants + 2))
    "$formatted" "$scratch/tree" >"$scratch/said" && failures=$((failures + 1))
    for line in 'tests/b.cpp: is not formatted' 'bench/c.cpp:1: has more than 120 columns'; do
        grep -qF "$line" "$scratch/said" || { echo "did not report $line" && failures=$((failures + 1)); }
    done
fi

[ $failures -eq 0 ] || { echo "$failures failures" && exit 1; }
echo "all $plants plants were caught"
