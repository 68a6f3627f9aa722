#!/usr/bin/env bash
# Tests scripts/release: two archives of one commit are the same bytes, whatever the environment, and have the commit's files.
#   release_script.sh ROOT
set -euo pipefail
root=$1
git -C "$root" rev-parse --verify --quiet HEAD >/dev/null || { echo "skipped: not a git repository" && exit; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
wrong() { echo "FAILED: $*" && exit 1; }

"$root/scripts/release" --out "$scratch/a" >"$scratch/said"
(
    umask 077
    export TZ=Asia/Tokyo LC_ALL=C GIT_CONFIG_COUNT=2
    export GIT_CONFIG_KEY_0=core.autocrlf GIT_CONFIG_VALUE_0=true GIT_CONFIG_KEY_1=tar.umask GIT_CONFIG_VALUE_1=0077
    "$root/scripts/release" --out "$scratch/b" "$(git -C "$root" rev-parse HEAD)" >/dev/null
)
archive=$(cd "$scratch/a" && echo *.tar.gz)
[ "$(ls -A "$scratch/a")" = "$(printf '%s\n' "${archive%.tar.gz}.sha256" "$archive")" ] || wrong "other files: $(ls -A "$scratch/a")"
cmp "$scratch/a/$archive" "$scratch/b/$archive" || wrong "two archives of one commit differ"
cmp "$scratch/a/${archive%.tar.gz}.sha256" "$scratch/said" || wrong "the printed checksums are not those of the file"

cd "$scratch/a"
gzip -dk "$archive"
sha256sum --check --quiet "${archive%.tar.gz}.sha256" || wrong "the checksums are those of other bytes"
tar -xf "${archive%.tar.gz}.tar"
diff <(cd "${archive%.tar.gz}" && find . -type f -printf '%P\n' | LC_ALL=C sort) \
    <(git -C "$root" -c core.quotePath=off ls-tree -r --name-only HEAD | LC_ALL=C sort) || wrong "other files than the commit's"

code=0
"$root/scripts/release" --out "$scratch/c" no-such-revision 2>"$scratch/said" || code=$?
if [ "$code" != 1 ] || ! grep -qF "no-such-revision is no commit" "$scratch/said"; then
    wrong "an unknown revision: $code, $(cat "$scratch/said")"
fi
