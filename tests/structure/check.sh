#!/usr/bin/env bash
# Checks the structure of the library: includes point down only; each optional dependency stays behind its fence; headers
# neither print nor read the environment; none is too long, and a design's page of choices has at most 80 lines; gneiss.hpp
# includes all headers that compute in memory and need no option; train/slots.hpp includes at most 30; README.md shows lines
# of the first program, headers the snippets that tests/structure compiles; all files show the version of version.hpp.
#
#   check.sh [ROOT]                every violation as FILE:LINE: TEXT; exit 1 if there is one
#   check.sh --without-cuda [ROOT] the same for the tree without cuda/, on which no other header may depend
#   check.sh --update [ROOT]       rewrites the list of gneiss.hpp
#   check.sh --needing DEP [ROOT]  headers that need DEP (eigen, uring, metis, io, yaml), directly or not
set -euo pipefail
export LC_ALL=C

mode=check
needing=
case "${1:-}" in
--without-cuda)
    shift
    tree=$(mktemp -d)
    trap 'rm -rf "$tree"' EXIT
    cp -r "${1:-$(dirname "$0")/../..}/include" "$tree"
    rm -rf "$tree/include/gneiss/cuda"
    "$0" "$tree" && exit
    exit 1
    ;;
--update) mode=update && shift ;;
--needing) mode=needing && needing=$2 && shift 2 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
root=${1:-$here/../..}
cd "$root/include/gneiss"
violations=0
report() {
    echo "include/gneiss/$1: $2"
    violations=$((violations + 1))
}

# may_include FROM TO: true if the header FROM may include the gneiss header TO. The one table of levels.
may_include() {
    local from=$1 to=$2
    case "$from" in
    cuda/*)
        from=${from#cuda/} to=${to#cuda/}
        case "$to" in device_api.cuh | launch.cuh) return 0 ;; esac # below all modules of the device side
        ;;
    esac
    case "$from:$to" in # batches of a state's data
    sample/link_batches.hpp:storage/edge/* | sample/any_graph_sampler.hpp:storage/adjacency/resident_graph.hpp) return 0 ;;
    sample/candidate_negatives.hpp:model/link_scorer.hpp) return 0 ;;
    esac
    local module=${from%%/*}
    case "$from:$to" in
    storage/*/*:storage/*/*) # one room of storage in another: the second table
        local room=${from#storage/} other=${to#storage/}
        room=${room%%/*} other=${other%%/*}
        case "$room:$other" in
        "$room:$room" | *:detail) return 0 ;;
        io:engine | edge:engine | edge:io | embedding:engine | embedding:io | feature:engine | feature:io) return 0 ;;
        adjacency:engine | adjacency:io | adjacency:edge) return 0 ;;
        *) return 1 ;;
        esac
        ;;
    esac
    case "$module:$to" in
    *.hpp:cuda/*) return 1 ;;
    *.hpp:* | detail:*) return 0 ;; # the doors, at the top, and their definitions
    *:core/* | *:"$module"/*) return 0 ;;
    core:* | graph:* | order:* | cache:*) return 1 ;;
    partition:graph/*) return 0 ;;
    sample:graph/* | sample:order/plan.hpp | sample:order/batches.hpp) return 0 ;;
    storage:graph/* | storage:order/plan.hpp | storage:cache/*) return 0 ;;
    io:graph/* | io:partition/* | io:storage/*) return 0 ;;
    model:graph/* | model:sample/link_batch.hpp | model:sample/layer_view.hpp | model:sample/layer_view.cuh | model:sample/link_batch.cuh) return 0 ;;
    superbatch:*/concepts.hpp | dist:*/concepts.hpp | train:*/concepts.hpp | inference:*/concepts.hpp | eval:*/concepts.hpp) return 0 ;;
    superbatch:sample/* | dist:sample/* | train:sample/* | train:superbatch/* | train:dist/* | train:model/*) return 0 ;; # the base of the top level
    dist:order/plan.hpp | dist:order/node_plan.hpp | dist:cache/*) return 0 ;;
    superbatch:* | train:* | inference:* | eval:*) # values
        case "$to" in
        graph/coo.hpp | order/plan.hpp | order/batches.hpp) return 0 ;;
        cache/trace.hpp | cache/change_set.hpp | cache/access_window.hpp) return 0 ;;
        sample/mini_batch.hpp | sample/link_batch.hpp | sample/layer_view.hpp) return 0 ;;
        model/embedding_table.hpp | model/link_scorer.hpp) return 0 ;;
        storage/io/io_stats.hpp | storage/embedding/resident_embeddings.hpp | storage/feature/sparse_rows.hpp) return 0 ;;
        esac
        case "$from:$to" in
        # The loop knows its slots by concepts alone. These adapt stores and caches to them.
        train/embeddings.hpp:storage/* | train/features.hpp:storage/* | train/features.hpp:cache/* | train/device_cached_features.hpp:storage/* | train/device_cached_features.hpp:cache/* | train/tasks.hpp:storage/*) return 0 ;;
        train/*_batches.hpp:storage/* | train/trainers/*:storage/* | train/fit.hpp:storage/* | train/detail/fit.hpp:storage/* | train/gnn_memory.hpp:storage/*) return 0 ;;
        train/detail/*_plan.hpp:order/cost.hpp | train/detail/training_plan.hpp:storage/*) return 0 ;;
        train/histories.hpp:storage/* | train/history_window.hpp:storage/* | train/history_options.hpp:storage/feature/feature_type.hpp | train/two_stage_batches.hpp:cache/slot_table.hpp | train/trainers/joestar.hpp:order/large_batches.hpp) return 0 ;;
        superbatch/*:cache/* | superbatch/*:storage/io/* | superbatch/superbatch_sampler.hpp:storage/*) return 0 ;;
        train/device_*.cuh:storage/* | train/device_setup.hpp:storage/feature/feature_type.hpp | train/macro_batch_device.hpp:storage/feature/feature_type.hpp) return 0 ;;
        inference/*:model/* | inference/*:storage/* | inference/layerwise_input.hpp:io/node_attributes.hpp) return 0 ;;
        esac
        ;;
    esac
    return 1
}

# fence INCLUDED: the pattern of headers that may include that foreign header; empty if all may.
fence() {
    case "$1" in
    liburing.h | liburing/*) echo 'storage/engine/uring.hpp' ;;
    Eigen/* | unsupported/Eigen/*) echo 'model/detail/eigen_products.hpp' ;;
    tbb/* | oneapi/*) echo 'core/executor/tbb.hpp' ;;
    xxhash.h | xxh3.h) echo 'core/checksum.hpp' ;;
    nlohmann/*) echo 'io/detail/manifest_json.hpp' ;;
    zlib.h | yaml-cpp/*) echo 'io/*' ;;
    zstd.h | zstd_errors.h) echo 'io/import/detail/zstd_decoder.hpp' ;;
    metis.h) echo 'partition/metis.hpp' ;;
    cuda* | cub/* | thrust/* | cooperative_groups* | cublas* | curand* | cusparse* | nv/* | device_launch_parameters.h)
        echo 'cuda/*' ;;
    simt/*) echo 'cuda/device_api.cuh' ;; # the emulator of the tests
    sys/*.h | linux/*.h | fcntl.h | unistd.h | dirent.h | poll.h | pthread.h | sched.h | signal.h | immintrin.h) ;;
    */* | *.*) echo 'nowhere' ;; # neither the standard library nor the system
    esac
}

# option INCLUDED: the optional component of that foreign header, if any.
option() {
    case "$1" in
    liburing.h | liburing/*) echo uring ;;
    Eigen/* | unsupported/Eigen/*) echo eigen ;;
    nlohmann/* | zlib.h) echo io ;;
    yaml-cpp/*) echo yaml ;;
    metis.h) echo metis ;;
    esac
}

headers=$(find . -name '*.hpp' -o -name '*.cuh' | sed 's|^\./||' | sort)
declare -A includes options
while IFS=: read -r file line text; do
    included=${text#*[<\"]}
    included=${included%%[>\"]*}
    case "$text" in *'"'*) [ $mode = check ] && report "$file:$line" "includes \"$included\", not <gneiss/…>" ;; esac
    case "$included" in
    gneiss/*)
        included=${included#gneiss/}
        includes[$file]+=" $included"
        [ $mode = check ] || continue
        [ -f "$included" ] || report "$file:$line" "includes <gneiss/$included>, which does not exist"
        may_include "$file" "$included" || report "$file:$line" "includes <gneiss/$included>, which is not below it"
        ;;
    *)
        needs=$(option "$included")
        options[$file]+=${needs:+ $needs}
        [ $mode = check ] || continue
        allowed=$(fence "$included")
        # shellcheck disable=SC2254 # a pattern
        case "$file" in
        ${allowed:-*}) ;;
        *) report "$file:$line" "includes <$included>, which is fenced to ${allowed/nowhere/programs outside the library}" ;;
        esac
        ;;
    esac
done < <(printf '%s\n' "$headers" | xargs grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]')

# A header needs everything that its includes need: repeat until nothing is added.
changed=true
while $changed; do
    changed=false
    for file in $headers; do
        for included in ${includes[$file]:-}; do
            for one in ${options[$included]:-}; do
                case " ${options[$file]:-} " in
                *" $one "*) ;;
                *) options[$file]+=" $one" && changed=true ;;
                esac
            done
        done
    done
done

# Headers of gneiss.hpp: those that compute in memory and need no option. Stores and their users take two thirds of the compile
# time, and a program uses few of them: it includes those, or a door.
plain=()
for file in $headers; do
    case "$file" in gneiss.hpp | detail/* | */detail/* | *.cuh) continue ;; esac
    case "$file" in storage/* | io/* | superbatch/* | train/* | inference/* | sample/link_batches.hpp | sample/any_graph_sampler.hpp) continue ;; esac
    [ -n "${options[$file]:-}" ] || plain+=("$file")
done
case $mode in
update)
    list=$(sed '/^#include/,$d' gneiss.hpp && printf '#include <gneiss/%s>\n' "${plain[@]}")
    echo "$list" >gneiss.hpp
    exit
    ;;
needing)
    for file in $headers; do case " ${options[$file]:-} " in *" $needing "*) echo "$file" ;; esac; done
    exit
    ;;
esac

if [ -f gneiss.hpp ]; then
    [ -z "${options[gneiss.hpp]:-}" ] || report gneiss.hpp:1 "needs an option:${options[gneiss.hpp]}"
    absent=$(comm -13 <(tr ' ' '\n' <<<"${includes[gneiss.hpp]:-}" | sort) <(printf '%s\n' "${plain[@]}") | paste -sd' ')
    [ -z "$absent" ] || report gneiss.hpp:1 "does not include $absent (tests/structure/check.sh --update fixes it)"
fi

# found RULE PATTERN FILES…: every match is a violation.
found() {
    local what=$1 pattern=$2
    shift 2
    while IFS=: read -r file line _; do report "$file:$line" "$what"; done < <(printf '%s\n' "$@" | xargs grep -HnE "$pattern" || true)
}
# shellcheck disable=SC2086 # one word a header
{
    found 'prints or reads the environment' 'std::(cout|cerr|clog)|printf *\(|getenv|[^_[:alnum:]]f?puts *\(' $headers
    found 'owns by a raw new' '(= *|return +)new +[A-Za-z_]' $headers
    found 'detaches a thread' '[.>]detach\(\)' $headers
    # nvcc declares the == that comes with <=>, and does not define it: programs that use it do not link.
    while IFS= read -r line; do report "$line" 'has a default <=> without a default =='; done < <(awk '
        after != "" && (FNR == 1 || !/operator==/) { print after }
        { after = /operator<=>.*= default/ ? FILENAME ":" FNR : "" }
        END { if (after != "") print after }' $headers)
}
# Others' files: only these few create, empty or remove (see storage/io/file_system.hpp), and a program only by them.
touching='remove_all|O_TRUNC|O_CREAT|std::ofstream|fopen *\(|create_director|mkdir *\(|mk[do]?s?temp *\('
touched_by='^(core/trace_recorder|storage/(detail/open_file|engine/detail/posix_files|io/(file_system|plain_file|durable)|embedding/scratch_rows))\.hpp:'
while IFS=: read -r file line _; do
    report "$file:$line" 'creates or removes files: use storage/io/file_system.hpp and plain_file'
done < <(xargs grep -HnE "$touching" <<<"$headers" | grep -vE "$touched_by" || true)
for file in $headers; do
    lines=$(wc -l <"$file")
    [ "$lines" -le 500 ] || report "$file:$lines" "is longer than 500 lines"
    case "$file" in
    train/trainers/detail/marius.hpp | train/trainers/detail/mariusgnn.hpp | train/trainers/detail/ginex.hpp | train/trainers/detail/hanoi.hpp | train/trainers/detail/joestar.hpp | train/trainers/detail/armada.hpp)
        [ "$lines" -le 80 ] || report "$file:$lines" "is a design's page of choices, and longer than 80 lines"
        ;;
    esac
    case "$file" in
    *.cuh) # the gate of tests/simt checks its kernels
        if grep -q '^__global__' "$file" && ! grep -rqsF --include='*.cu' "#include <gneiss/$file>" ../../tests/simt; then
            report "$file:1" 'has kernels that no .cu file of tests/simt includes'
        fi
        ;;
    esac
    grep -q '^#pragma once$' "$file" || report "$file:1" "has no #pragma once"
    [ "$(head -n 1 "$file")" = '// SPDX-License-Identifier: Apache-2.0' ] || report "$file:1" "does not begin with its license (SPDX)"
done

# Who writes a slot of their own includes little: the concepts, and the types that they name.
if [ -f train/slots.hpp ]; then
    reached=train/slots.hpp
    while :; do
        # shellcheck disable=SC2086 # one word a header
        next=$(for file in $reached; do printf '%s\n' "$file" ${includes[$file]:-}; done | sort -u)
        [ "$next" != "$reached" ] || break
        reached=$next
    done
    reached=$(($(wc -w <<<"$reached") - 1))
    [ $reached -le 30 ] || report train/slots.hpp:1 "includes $reached headers of gneiss, directly or not; 30 are allowed"
fi

cd ../..
while IFS=: read -r file line _; do
    echo "$file:$line: creates or removes files: use storage/io/file_system.hpp and plain_file"
    violations=$((violations + 1))
done < <(grep -rnE "$touching" --include='*.[ch]pp' examples/programs bench/study 2>/dev/null | grep -v '^examples/programs/kit/\(run/run_trace\|report/run_directory\).cpp:' || true)
# Sources of the programs state their license, as headers do.
while IFS= read -r file; do
    echo "$file:1: does not begin with its license (SPDX)"
    violations=$((violations + 1))
done < <([ ! -d examples/programs ] || find examples/programs bench/study -name '*.[ch]pp' -o -name '*.cu' 2>/dev/null | while IFS= read -r file; do
    [ "$(head -n 1 "$file")" = '// SPDX-License-Identifier: Apache-2.0' ] || echo "$file"
done)

# A cast cuts the value of a flag to 32 bits or fewer without a word: programs::narrow refuses it. These objects hold flags.
narrow='(std::)?(u?int(8|16|32)_t|unsigned|int|short)|(gneiss::)?(node_id|relation_id|class_id|partition_id(16)?)'
flags='\*?((of|this)[_.>-]+)?(flags|how|o|options)_?\.[a-z_]+(\.value_or\([^()]*\))?|[a-z_.]+->count|programs::parse_count\([^()]*\)'
while IFS=: read -r file line _; do
    echo "$file:$line: casts the value of a flag; programs::narrow checks it"
    violations=$((violations + 1))
done < <([ ! -d examples/programs ] || grep -rnE "static_cast<($narrow)>\(($flags)( [/*%+-] [^()]*)?\)" examples/programs bench/study 2>/dev/null || true)

if [ -f README.md ] && [ -f examples/00_hello.cpp ]; then # the first block of C++ there
    # shellcheck disable=SC2016 # backquotes of Markdown
    block=$(sed -n '/^```cpp$/,/^```$/{//!p;/^```$/q}' README.md)
    if [ -z "$block" ] || [[ $(<examples/00_hello.cpp) != *"$block"* ]]; then
        echo "README.md:1: its first C++ is not a passage of examples/00_hello.cpp"
        violations=$((violations + 1))
    fi
fi

if [ -f tests/structure/snippets.cpp ]; then # the lines from "//<" to "//>" are in comments of the header named before
    # shellcheck disable=SC2016 # fields of awk
    while IFS= read -r line; do
        echo "$line"
        violations=$((violations + 1))
    done < <(awk '
        function comments(header,    line, text) {
            while ((getline line < ("include/gneiss/" header)) > 0)
                if (sub(/^ *\/\/\/ */, "", line)) text = text "\n" line
            return text "\n"
        }
        /^\/\/ [a-z0-9_\/]+\.hpp$/ { header = $2; next }
        { sub(/^ +/, "") }
        $0 == "//<" { inside = 1; at = FNR; snippet = "\n"; next }
        $0 == "//>" {
            inside = 0
            if (!index(comments(header), snippet)) print FILENAME ":" at ": the snippet is not in a comment of include/gneiss/" header
            close("include/gneiss/" header)
            next
        }
        inside { snippet = snippet $0 "\n" }' tests/structure/snippets.cpp)
fi

# A recipe whose figure is a paper's says so first.
while IFS=: read -r file line _; do
    [[ $(head -n 1 "$file") == "# The paper's figure, not ours"* ]] && continue
    echo "$file:$line: expects a paper's figure; its first line does not begin with \"The paper's figure, not ours\""
    violations=$((violations + 1))
done < <([ ! -d examples/recipes ] || grep -rnE "Expected: the paper's" examples/recipes || true)

# shows FILE PATTERN: the first line of FILE with PATTERN and a version after it shows the version of version.hpp.
shows() {
    local line first=''
    [ ! -f "$1" ] || first=$(grep -nE "$2"'[0-9]+\.[0-9]+\.[0-9]+' "$1" | head -n 1 || true)
    [ "$(sed -E "s/^[0-9]*://;s/$2"'([0-9.]+).*/\1/' <<<"$first")" != "$version" ] || return 0
    line=${first%%:*}
    echo "$1:${line:-1}: does not show version $version, which include/gneiss/version.hpp states"
    violations=$((violations + 1))
}
if [ -f CMakeLists.txt ]; then # a whole tree
    version=$(sed -nE 's/^#define GNEISS_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' include/gneiss/version.hpp | paste -sd.)
    shows CHANGELOG.md '^## ' # the newest entry with a version
    shows CITATION.cff '^version: '
    shows conanfile.py '^    version = "'
    shows packaging/vcpkg/ports/gneiss/vcpkg.json '^  "version": "'
fi

[ $violations -eq 0 ] || { echo "$violations violations of the structure" && exit 1; }
echo "$(wc -w <<<"$headers") headers keep the structure"
