#!/usr/bin/env bash
# Runs some of the GPU tests under compute-sanitizer. Before that, each of its tools must find the fault in its
# program of planted/, and nothing in the same program without the fault. Needs a GPU, nvcc, and a python3 in PATH
# that can import smemkit.
#
#   tests/tools/sanitize.sh                   memcheck, racecheck and synccheck
#   tests/tools/sanitize.sh memcheck          some of them
#   TESTS='tiled and not wrap' tests/tools/sanitize.sh   other tests: an expression for pytest -k
set -euo pipefail
cd "$(dirname "$0")/../.."
TESTS=${TESTS:-every_variant or (test_reverse and 257) or (test_add_one and 257) or a_call_is_a_launch}
FOUND=77 # compute-sanitizer's exit status if it reports errors
declare -A planted=([memcheck]=out_of_bounds [racecheck]=race [synccheck]=divergent_barrier)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() {
    echo "sanitize.sh: $*" >&2
    exit 1
}

sanitize() { # sanitize <tool> <command …>: 0, FOUND, or the command's own status
    compute-sanitizer --tool "$1" --error-exitcode $FOUND "${@:2}"
}

expect() { # expect <status> <command …>: if the status differs, prints the command's output and fails
    local status=0
    "${@:2}" >"$tmp/log" 2>&1 || status=$?
    [ $status = "$1" ] || { cat "$tmp/log" >&2; fail "expected exit status $1, got $status: ${*:2}"; }
}

check_tool() { # the tool finds the planted fault and reports nothing in the clean kernel
    local source=tests/planted/${planted[$1]}.cu
    nvcc -arch=native -lineinfo -o "$tmp/clean" "$source"
    nvcc -arch=native -lineinfo -DFAULTY -o "$tmp/faulty" "$source"
    expect 0 sanitize "$1" "$tmp/clean"
    expect $FOUND sanitize "$1" "$tmp/faulty"
    echo "$1: finds $source"
}

check_tests() { # at least one test runs, all pass, and the tool reports nothing
    local status=0
    sanitize "$1" python3 -m pytest -n0 --full -m gpu -q -p no:cacheprovider -k "$TESTS" | tee "$tmp/log" || status=$?
    [ $status != $FOUND ] || fail "$1 reported errors in the kernels, see above"
    [ $status = 0 ] || fail "the tests failed under $1 with exit status $status"
    grep -qE '(^|[ =])[1-9][0-9]* passed' "$tmp/log" || fail "no test ran under $1"
}

for tool in compute-sanitizer nvcc python3; do
    command -v "$tool" >/dev/null || fail "$tool is not in PATH"
done
python3 -c 'import smemkit, sys; sys.exit(smemkit._core.cuda_unavailable())' || fail 'no CUDA device'
[ $# != 0 ] || set -- memcheck racecheck synccheck
for tool; do
    [ -n "${planted[$tool]:-}" ] || fail "expected some of ${!planted[*]}, got $tool"
    check_tool "$tool"
    check_tests "$tool"
done
echo "sanitize.sh: $* found the planted faults and reported nothing in smemkit"
