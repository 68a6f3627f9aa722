#!/usr/bin/env bash
# Tests check.sh and pages.sh: a valid tree passes, and every violation planted in it is reported with its place.
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
expect_caught() { # place and text of the expected report
    if "$checker" "$scratch/tree" >"$scratch/said"; then
        echo "not caught: $1" && failures=$((failures + 1))
    elif ! grep -qF "$1" "$scratch/said"; then
        echo "expected: $1" && cat "$scratch/said" && failures=$((failures + 1))
    fi
}
# planted REPORT FILE LINES…
planted() {
    local expected=$1
    shift
    tree_in_order
    put "$@"
    expect_caught "include/gneiss/$expected"
}

tree_in_order
"$check" "$scratch/tree" || failures=$((failures + 1))

up='is not below it'
planted "core/a.hpp:3: includes <gneiss/order/plan.hpp>, which $up" core/a.hpp '#include <gneiss/order/plan.hpp>'
planted "order/plan.hpp:3: includes <gneiss/storage/s.hpp>, which $up" order/plan.hpp '#include <gneiss/storage/s.hpp>'
planted "storage/s.hpp:3: includes <gneiss/model/concepts.hpp>, which $up" storage/s.hpp '#include <gneiss/model/concepts.hpp>'
planted "model/concepts.hpp:3: includes <gneiss/storage/s.hpp>, which $up" model/concepts.hpp '#include <gneiss/storage/s.hpp>'
planted "train/p.hpp:3: includes <gneiss/storage/s.hpp>, which $up" train/p.hpp '#include <gneiss/storage/s.hpp>'
planted "storage/io/file.hpp:3: includes <gneiss/storage/edge/e.hpp>, which $up" storage/io/file.hpp '#include <gneiss/storage/edge/e.hpp>'
planted "storage/s.hpp:3: includes <gneiss/cuda/order/plan.cuh>, which $up" storage/s.hpp '#include <gneiss/cuda/order/plan.cuh>'
planted "cuda/order/plan.cuh:3: includes <gneiss/storage/s.hpp>, which $up" cuda/order/plan.cuh '#include <gneiss/storage/s.hpp>'
planted "core/a.hpp:3: includes <gneiss/cuda/device_api.cuh>, which $up" core/a.hpp '#include <gneiss/cuda/device_api.cuh>'
planted "gneiss.hpp:3: includes <gneiss/cuda/order/plan.cuh>, which $up" gneiss.hpp '#include <gneiss/cuda/order/plan.cuh>'
planted 'cuda/order/plan.cuh:1: has kernels that no .cu file of tests/simt includes' cuda/order/plan.cuh '__global__ void f() {}'
planted 'core/a.hpp:3: includes <gneiss/core/gone.hpp>, which does not exist' core/a.hpp '#include <gneiss/core/gone.hpp>'
planted 'core/a.hpp:3: includes "b.hpp", not <gneiss/…>' core/a.hpp '#include "b.hpp"'

for fenced in liburing.h Eigen/Dense tbb/parallel_for.h oneapi/tbb.h xxhash.h nlohmann/json.hpp zlib.h metis.h cuda_runtime.h \
    simt/emulator.hpp CLI/CLI.hpp fmt/core.h boost/any.hpp; do
    planted "storage/s.hpp:3: includes <$fenced>, which is fenced to" storage/s.hpp "#  include <$fenced>"
done
planted 'gneiss.hpp:1: needs an option: uring' storage/s.hpp '#include <gneiss/storage/engine/uring.hpp>'
planted 'gneiss.hpp:1: does not include core/new.hpp' core/new.hpp

for talk in 'std::cout << 1;' 'std::cerr << 1;' 'std::printf("x");' 'fprintf(stderr, "x");' 'puts("x");' 'getenv("HOME");'; do
    planted 'core/a.hpp:3: prints or reads the environment' core/a.hpp "inline void f() { $talk }"
done
planted 'core/a.hpp:3: owns by a raw new' core/a.hpp 'inline int* f() { return new int; }'
planted 'core/a.hpp:3: detaches a thread' core/a.hpp 'inline void f(auto& thread) { thread.detach(); }'
planted 'core/a.hpp:3: leaves something to be done' core/a.hpp '// TO''DO'
mapfile -t long < <(yes '//' | head -500)
planted 'core/a.hpp:502: is longer than 500 lines' core/a.hpp "${long[@]}"

tree_in_order
put core/a.hpp '#include <gneiss/cuda/device_api.cuh>'
if "$check" --without-cuda "$scratch/tree" >"$scratch/said"; then
    echo "not caught: a dependency on cuda/" && failures=$((failures + 1))
fi
tree_in_order
"$check" --without-cuda "$scratch/tree" || failures=$((failures + 1))
mkdir -p "$scratch/tree/tests/simt/order"
put cuda/order/plan.cuh '__global__ void f() {}'
echo '#include <gneiss/cuda/order/plan.cuh>' >"$scratch/tree/tests/simt/order/plan.cu"
"$check" "$scratch/tree" || failures=$((failures + 1))

tree_in_order
echo '// nothing' >"$scratch/tree/include/gneiss/core/a.hpp"
expect_caught 'include/gneiss/core/a.hpp:1: has no #pragma once'
tree_in_order
echo '#pragma once' >"$scratch/tree/include/gneiss/core/a.hpp"
expect_caught 'include/gneiss/core/a.hpp:1: does not begin with its license (SPDX)'
tree_in_order
mkdir "$scratch/tree/tests" && echo '// FIX''ME' >"$scratch/tree/tests/a.cpp"
expect_caught 'tests/a.cpp:1: leaves something to be done'

tree_in_order
mkdir "$scratch/tree/examples" && echo 'int main() {}' >"$scratch/tree/examples/00_hello.cpp"
printf '%s\n' '```cpp' 'int main() {}' '```' '```cpp' 'int other;' '```' >"$scratch/tree/README.md"
"$check" "$scratch/tree" || failures=$((failures + 1))
echo 'int main() { return 0; }' >"$scratch/tree/examples/00_hello.cpp"
expect_caught 'README.md:1: its first program is not examples/00_hello.cpp'

tree_in_order
mkdir -p "$scratch/tree/examples/recipes"
printf '%s\n' "# The paper's figure, not ours: never run." "# Expected: the paper's .5" >"$scratch/tree/examples/recipes/a.toml"
"$check" "$scratch/tree" || failures=$((failures + 1))
sed -i 1d "$scratch/tree/examples/recipes/a.toml"
expect_caught "examples/recipes/a.toml:1: expects a paper's figure"

tree_in_order
echo 'what a neigh''bour to''ld' >"$scratch/tree/README.md"
expect_caught 'README.md:1: has a retired word: what a neigh''bour to''ld'
tree_in_order
put core/a.hpp '' '// Wh''ether it is' 'bool is();'
expect_caught 'include/gneiss/core/a.hpp:4: the comment opens with a clause, not with what the thing is or does'

tree_in_order
put core/a.hpp '/// An a.' '///' '///     a x(1); // one' '///     x.b();' 'struct a {};'
mkdir -p "$scratch/tree/tests/structure"
printf '%s\n' '// core/a.hpp' 'void f() {' '    //<' '    a x(1); // one' '    x.b();' '    //>' '}' >"$scratch/tree/tests/structure/snippets.cpp"
"$check" "$scratch/tree" || failures=$((failures + 1))
sed -i 's/x\.b/x.c/' "$scratch/tree/tests/structure/snippets.cpp"
expect_caught 'tests/structure/snippets.cpp:3: the snippet is not in a comment of include/gneiss/core/a.hpp'

if command -v codespell >/dev/null; then
    tree_in_order
    put core/a.hpp '// It is sep''erate from the others' '// of the coo format.'
    expect_caught 'include/gneiss/core/a.hpp:3: is misspelled: sep''erate, correct: separate'
    tree_in_order
    mkdir "$scratch/tree/scripts" && echo '# the col''our' >"$scratch/tree/scripts/run"
    expect_caught 'scripts/run:1: is misspelled: col''our, correct: color'
fi

# A whole tree, whose files show the version; with another one in a file, or without the file, that is reported.
tree_of_version() {
    tree_in_order
    put gneiss.hpp "$(grep include "$scratch/tree/include/gneiss/gneiss.hpp")" '#include <gneiss/version.hpp>'
    put version.hpp '#define GNEISS_VERSION_MAJOR 1' '#define GNEISS_VERSION_MINOR 20' '#define GNEISS_VERSION_PATCH 3'
    mkdir -p "$scratch/tree/packaging/vcpkg/ports/gneiss"
    touch "$scratch/tree/CMakeLists.txt"
    printf '%s\n' '# Changelog' '## Unreleased' '## 1.20.3 - 2030-01-01' '## 1.20.2 - 2029-01-01' >"$scratch/tree/CHANGELOG.md"
    printf '%s\n' 'cff-version: 1.2.0' 'version: 1.20.3' >"$scratch/tree/CITATION.cff"
    printf '%s\n' 'class Gneiss(ConanFile):' '    version = "1.20.3"' >"$scratch/tree/conanfile.py"
    printf '%s\n' '{' '  "version": "1.20.3",' '}' >"$scratch/tree/packaging/vcpkg/ports/gneiss/vcpkg.json"
}
tree_of_version
"$check" "$scratch/tree" || failures=$((failures + 1))
for place in CHANGELOG.md:3 CITATION.cff:2 conanfile.py:2 packaging/vcpkg/ports/gneiss/vcpkg.json:2; do
    for other in 1.20.4 1.20.30 11.20.3; do
        tree_of_version
        sed -i "s/1\.20\.3/$other/" "$scratch/tree/${place%:*}"
        expect_caught "$place: does not show version 1.20.3, which include/gneiss/version.hpp states"
    done
    rm "$scratch/tree/${place%:*}"
    expect_caught "${place%:*}:1: does not show version 1.20.3"
done

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
# planted_page REPORT LINES…: at the end of docs/a.md
planted_page() {
    local expected=$1
    shift
    pages_in_order
    printf '%s\n' "$@" >>"$scratch/tree/docs/a.md"
    expect_caught "docs/a.md:$expected"
}
pages_in_order
"$checker" "$scratch/tree" || failures=$((failures + 1))
planted_page '4: links to README.md, which does not exist' '[x](README.md)'
planted_page '4: links to ../../b, which does not exist' '[x](../../b)'
planted_page '4: links to #second-part, but docs/a.md has no such heading' '[x](#second-part)'
planted_page '5: links to ../README.md#again-2, but README.md has no such heading' '' '[y](a.md) [x](../README.md#again-2)'
planted_page '8: links to gone.md, which does not exist' '' '    [code](gone.md)' '' '    - [in a list](guide) [x](gone.md)' '[x](gone.md)'
planted_page '6: the block of C++ is not part of a program' 'x' '' '```cpp' 'return 2;' '```'
planted_page '4: the block of C++ is not part of a program' '```cpp' 'int main() {' 'return' '```'
planted_page '4: has 121 columns; 120 are allowed' "$(printf 'ü%.0s' {1..121})"
# shellcheck disable=SC2016
planted_page '4: names docs/gone.md, which does not exist' 'see `docs/gone.md`'
planted_page '4: a heading that is not ASCII' '## ü'

[ $failures -eq 0 ] || { echo "$failures plants went unseen" && exit 1; }
echo "every plant was caught"
