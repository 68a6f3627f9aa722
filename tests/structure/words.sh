#!/usr/bin/env bash
# Checks the words of the tree: retired words stay away; no comment opens with a clause; nothing is left to be done; a figure in
# a page has a digit before its point, and times of epochs are in s/epoch; and, if codespell is installed, it finds no misspelled
# or British word (words.txt lists those that it takes for one).
#
#   words.sh [ROOT]     every violation as FILE:LINE: TEXT; exit 1 if there is one
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}"
violations=0
# report TEXT: a violation at each place of the input, which has lines FILE:LINE:….
report() {
    while IFS=: read -r file line _; do
        echo "$file:$line: $1"
        violations=$((violations + 1))
    done
}

prose=()
for path in include examples docs tests bench README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md; do
    if [ -e $path ]; then prose+=("$path"); fi
done
[ ${#prose[@]} -gt 0 ] || { echo "no pages and no code in $PWD" && exit 1; }

# Retired words, in any case: told and tell (report), anew (again), nobody, lend and lent, classes of nodes (node
# classification), graph network (GNN), and British spellings. Names in files and JSON of version 1 stay, as "neighbours".
retired='\b(told|tells?|anew|nobody|len[dt]s?|classes of nodes|graph networks?|(?<!["./`])[a-z_]*neighbour[a-z_]*|[a-z_]*optimis(e|ing)[a-z_]*|[a-z_]*initialis[a-z_]*)\b'
while IFS=: read -r file line text; do
    echo "$file:$line: has a retired word: $text"
    violations=$((violations + 1))
done < <(grep -rIniP "$retired" "${prose[@]}" --exclude='check*.sh' --exclude='words.*' --exclude='*.svg' --exclude-dir=corpus || true)

# Clauses that a comment may not open with: it opens with what the thing is or does.
opener='(What|Where|How|Whether|Which|Whose|Of)'
# shellcheck disable=SC2016 # fields of awk
report 'the comment opens with a clause, not with what the thing is or does' < <(
    find "${prose[@]}" -type f \( -name '*.hpp' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' \) -print0 |
        xargs -0r awk -v opener="$opener" '
            FNR == 1 { inside = 0 }
            { comment = $0 ~ /^[ \t]*\/\// }
            (comment && !inside && $0 ~ "^[ \t]*//+ *" opener "[ ,]") || $0 ~ "[;,{] *///?< *" opener "[ ,]" { print FILENAME ":" FNR ":" }
            { inside = comment }'
)

code=()
for path in include examples tests bench scripts cmake; do if [ -d $path ]; then code+=("$path"); fi; done
[ ${#code[@]} -eq 0 ] || report 'leaves something to be done' < <(grep -rnIE 'TO''DO|FIX''ME' "${code[@]}" || true)

# Figures of pages, outside of blocks and spans of code, which may go over lines of a paragraph.
pages=()
while IFS= read -r page; do pages+=("$page"); done < <(find "${prose[@]}" -name '*.md')
# shellcheck disable=SC2016 # fields of awk, backquotes of Markdown
while IFS= read -r line; do
    echo "$line"
    violations=$((violations + 1))
done < <([ ${#pages[@]} -eq 0 ] || awk '
    FNR == 1 { fenced = indented = span = 0; blank = 1 }
    /^ *```/ { fenced = !fenced; next }
    fenced { next }
    /^    / && (blank || indented) { indented = 1; next }
    { indented = 0; blank = /^ *$/ }
    /^ *$|^[|#]|^ *[-*] |^[0-9]+\. / { span = 0 } # another paragraph
    {
        words = ""
        for (n = split($0, parts, "`"); n > 0; n--) if ((n + span) % 2) words = parts[n] " ` " words
        if (gsub(/`/, "`") % 2) span = !span
        if (words ~ /(^|[^A-Za-z0-9_.)\]}])\.[0-9]/) print FILENAME ":" FNR ": has a figure without a digit before its point"
        if (words ~ /[0-9] m?s (an|per) epoch/) print FILENAME ":" FNR ": has a time of an epoch that is not in s/epoch"
    }' "${pages[@]}")

# spelled: files whose words are checked. A codespell that fails without a word is no result.
spelled=()
for path in "${prose[@]}" scripts cmake packaging test_package .github .ci CMakeLists.txt conanfile.py CITATION.cff; do
    if [ -e "$path" ]; then spelled+=("$path"); fi
done
spelling='misspelled words: 0'
if command -v codespell >/dev/null; then
    words=$(codespell --builtin clear,rare,en-GB_to_en-US --ignore-words "$here/words.txt" --check-hidden --quiet-level 3 \
        --skip '*.svg,*.png,*.npy,*.xxh3,*.gz,*/corpus,tests/data,*/words.txt' -- "${spelled[@]}" 2>&1) && failed=0 || failed=$?
    [ "$failed" -eq 0 ] || words=${words:-codespell:0: exit code $failed}
    while IFS= read -r line; do
        [ -n "$line" ] || continue
        sed -E 's|^(\./)?([^:]*:[0-9]+): (.*) ==> |\2: is misspelled: \3, correct: |' <<<"$line"
        violations=$((violations + 1))
    done <<<"$words"
else
    spelling='spelling was not checked: codespell is not installed'
fi

[ $violations -eq 0 ] || { echo "$violations violations of the words" && exit 1; }
echo "retired words: 0; comments that open with a clause: 0; figures without a digit before the point: 0; $spelling"
