#!/usr/bin/env bash
# Checks the Markdown pages: every relative link leads to a file or folder of the tree, every anchor to a heading; every
# path in backquotes that begins with a folder of the tree exists (docs/gpu is made by scripts/gpu), and every header in
# a folder, which is one of the library; every block of C++ is part of a program in examples/, which run as tests, and
# C++ is in such blocks only; a line has at most 120 columns, except rows of tables.
#
#   pages.sh [ROOT]     every violation as FILE:LINE: TEXT; exit 1 if there is one
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"
export LC_ALL=C # headings are ASCII, which is checked

# tree: files and folders, without build outputs and data.
tree() { find . \( -name .git -o -name build -o -name data -path ./data -o -name runs -path ./runs \) -prune -o -print | sed 's|^\./||'; }
mapfile -t pages < <(tree | grep '\.md$' | sort)
[ ${#pages[@]} -gt 0 ] || { echo "no pages in $PWD" && exit 1; }
shopt -s nullglob
examples=(examples/*.cpp)

# shellcheck disable=SC2016 # fields of awk
tree | awk '
    # slug TEXT: the anchor that GitHub makes of a heading.
    function slug(text) {
        while (match(text, /\[[^]]*\]\([^)]*\)/)) { # a link has the anchor of its text
            link = substr(text, RSTART, RLENGTH)
            text = substr(text, 1, RSTART - 1) substr(link, 2, index(link, "](") - 2) substr(text, RSTART + RLENGTH)
        }
        text = tolower(text)
        gsub(/[^a-z0-9_ -]/, "", text)
        gsub(/ /, "-", text)
        return text
    }
    function complain(line, text) { print FILENAME ":" line ": " text; violations++ }
    # joined FOLDER PATH: FOLDER/PATH without . and ..; empty if it leaves the tree.
    function joined(folder, path,    parts, n, i, kept, depth) {
        n = split((folder == "" ? "" : folder "/") path, parts, "/")
        depth = 0
        for (i = 1; i <= n; i++) {
            if (parts[i] == "" || parts[i] == ".") continue
            if (parts[i] == "..") { if (--depth < 0) return ""; continue }
            kept[++depth] = parts[i]
        }
        path = depth == 0 ? "." : kept[1]
        for (i = 2; i <= depth; i++) path = path "/" kept[i]
        return path
    }
    # columns TEXT: characters, not bytes: those that continue one in UTF-8 do not count.
    function columns(text) { gsub(/[\200-\277]/, "", text); return length(text) }

    FILENAME == "-" { exists[$0] = 1; next }
    FILENAME ~ /\.cpp$/ {
        sub(/^ +/, "")
        programs[FILENAME] = programs[FILENAME] "\n" $0
        next
    }
    FNR == 1 { fenced = 0; blank = 1 }
    columns($0) > 120 && !/^\|/ { complain(FNR, "has " columns($0) " columns; 120 are allowed") }
    /^ *```/ {
        fenced = !fenced
        if (fenced) {
            is_cpp = /^ *```cpp$/
            is_text = /^ *```$/
            if (!is_cpp && !is_text && !/^ *```(cmake|console|python|sh)$/)
                complain(FNR, "a block of code is of cmake, console, cpp, python or sh")
            block = ""; begun = FNR
        } else if (is_cpp) {
            shown = 0
            for (program in programs) if (index(programs[program] "\n", block "\n")) shown = 1
            if (!shown) complain(begun, "the block of C++ is not part of a program in examples/")
            snippets++
        }
        next
    }
    (fenced ? is_text : /^    / && (blank || indented)) && /;$/ { complain(FNR, "C++ that is in no block of C++") }
    fenced { sub(/^ +/, ""); block = block "\n" $0; next }
    /^    / && (blank || indented) { indented = 1; next } # code
    { indented = 0; blank = /^ *$/ }
    /^#+ / {
        text = $0
        sub(/^#+ +/, "", text)
        if (text ~ /[\200-\377]/) complain(FNR, "a heading that is not ASCII has no anchor that is checked")
        name = slug(text)
        anchors[FILENAME "#" name (seen[FILENAME, name]++ ? "-" seen[FILENAME, name] - 1 : "")] = 1
    }
    {
        rest = $0
        while (match(rest, /\]\([^) ]+\)/)) {
            n++
            place[n] = FILENAME; at[n] = FNR; target[n] = substr(rest, RSTART + 2, RLENGTH - 3)
            rest = substr(rest, RSTART + RLENGTH)
        }
        rest = $0
        while (match(rest, /`(include|tests|examples|docs|scripts|cmake|packaging|test_package|bench)\/[A-Za-z0-9_.\/-]*`/)) {
            named = substr(rest, RSTART + 1, RLENGTH - 2)
            sub(/\/$/, "", named)
            if (!(named in exists) && named != "docs/gpu" && named !~ /[A-Z][A-Z]/) complain(FNR, "names " named ", which does not exist")
            rest = substr(rest, RSTART + RLENGTH)
        }
        rest = $0
        while (match(rest, /`[a-z_]+\/[A-Za-z0-9_.\/-]*\.(hpp|cuh)`/)) { # headers: in a folder of the library
            named = "include/gneiss/" substr(rest, RSTART + 1, RLENGTH - 2)
            if (named !~ /gneiss\/(include|tests|examples|bench|gneiss)\// && !(named in exists))
                complain(FNR, "names " named ", which does not exist")
            rest = substr(rest, RSTART + RLENGTH)
        }
    }
    END {
        for (i = 1; i <= n; i++) {
            if (target[i] ~ /^[a-z]+:/) continue # on the web: not read
            links++
            FILENAME = place[i]
            folder = FILENAME
            if (!sub(/\/[^\/]*$/, "", folder)) folder = ""
            anchor = ""
            path = target[i]
            if (hash = index(path, "#")) {
                anchor = substr(path, hash)
                path = substr(path, 1, hash - 1)
            }
            file = path == "" ? FILENAME : joined(folder, path)
            if (file == "" || !(file in exists)) complain(at[i], "links to " target[i] ", which does not exist")
            else if (anchor != "" && file ~ /\.md$/ && !((file anchor) in anchors))
                complain(at[i], "links to " target[i] ", but " file " has no such heading")
        }
        if (violations) { print violations " violations of the pages"; exit 1 }
        print "'"${#pages[@]}"' pages, " links " relative links, " snippets + 0 " blocks of C++ from examples"
    }' - ${examples[@]+"${examples[@]}"} "${pages[@]}"
