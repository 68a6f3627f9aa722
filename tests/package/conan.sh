#!/usr/bin/env bash
# Makes the Conan package and tests it, with no remote and the machine's dependencies: with all components, then with the
# core alone, which takes the same package.
#   conan.sh CONAN FOLDER      everything that it writes is in FOLDER
set -euo pipefail
conan=$(realpath -s "$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "$0")/../.."

exec </dev/null # it asks nothing
export CONAN_HOME=$folder/home
rm -rf "${folder:?}"/{home,test}
"$conan" profile detect >/dev/null
common=(--no-remote -o '&:system=True' -s compiler.cppstd=20 -c tools.cmake.cmaketoolchain:generator=Ninja
    -c tools.cmake.cmaketoolchain:user_presets= -c "tools.cmake.cmake_layout:test_folder=$folder/test")

# expect OPTIONS… TEXT: the package is made, and its test prints TEXT.
expect() {
    local text=${*: -1}
    PYTHONDONTWRITEBYTECODE=1 "$conan" create . "${common[@]}" "${@:1:$#-1}" 2>&1 | tee "$folder/log"
    grep -qxF "$text" "$folder/log" || { echo "FAILED: the test did not print '$text'" && exit 1; }
}
version=$(sed -n 's/^    version = "\(.*\)"$/\1/p' conanfile.py)
components='eigen, io'
options=()
for optional in liburing.h:uring metis.h:metis zstd.h:zstd yaml-cpp/yaml.h:yaml; do # those whose packages are optional in scripts/setup
    if echo "#include <${optional%:*}>" | "${CXX:-c++}" -fsyntax-only -x c++ - 2>/dev/null; then
        components+=", ${optional#*:}" options+=(-o "&:${optional#*:}=True")
    else
        options+=(-o "&:${optional#*:}=False")
    fi
done
expect "${options[@]}" "gneiss $version, $components: works"
expect -o '&:eigen=False' -o '&:io=False' -o '&:uring=False' "gneiss $version: works"

# One package, whatever the options.
packages=$("$conan" list "gneiss/$version:*" --format json 2>/dev/null | grep -c '"info"' || true)
[ "$packages" = 1 ] || { echo "FAILED: $packages packages, not one for all options" && exit 1; }
echo '2 passed, 0 failed'
