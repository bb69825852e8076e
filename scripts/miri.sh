#!/usr/bin/env bash
# Runs unit tests under Miri, which finds undefined behaviour: the portable kernels of lanes, and all of pool, protocol and document.
#
#   scripts/miri.sh SECONDS
#
# Miri takes some thousand times as long as the machine, so that each test is given SECONDS and cut off then, which is no failure; what
# passed, failed and was cut off is counted. Left out are curve arithmetic, which would be cut off before its first product, the detection
# of CPUs, which reads the system's files, and the pool's simulation and loom's interleavings, none of which would end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:?usage: scripts/miri.sh SECONDS}
left_out='^(ec|cpu)::|simulation::|interleavings'
results=${CARGO_TARGET_DIR:-target}/miri-results
rm -rf "$results"
mkdir -p "$results"

if ! cargo +nightly miri --version >/dev/null 2>&1; then
  echo '== setup: rustup component add miri rust-src, for the nightly toolchain'
  rustup toolchain install nightly --profile minimal --component miri --component rust-src
fi
cargo +nightly miri setup

# The system's clock and files; few cases of each property.
export MIRIFLAGS='-Zmiri-disable-isolation' PROPTEST_CASES=4

run() {
  local package=$1 test=$2 seconds=$3 results=$4 log status=0
  log=$results/$package-${test//::/-}.log
  timeout "$seconds" cargo +nightly miri test --quiet --package "leafseal-$package" --lib -- --exact "$test" >"$log" 2>&1 || status=$?
  case $status in
  0) echo "passed $package $test" ;;
  124) echo "cut-off $package $test" ;;
  *) echo "failed $package $test ($log)" ;;
  esac
}
export -f run

for package in lanes pool protocol document; do
  echo "== miri: leafseal-$package" >&2
  # Built before tests run side by side.
  cargo +nightly miri test --quiet --package "leafseal-$package" --lib -- --list 2>/dev/null | sed -n 's/: test$//p' |
    { grep -Ev "$left_out" || true; } |
    xargs -P "$(nproc)" -I '{}' bash -c 'run "$@"' run "$package" '{}' "$seconds" "$results" | tee -a "$results/all"
done

count() { grep -c "^$1 " "$results/all" || true; }
echo "miri: $(count passed) passed, $(count failed) failed, $(count cut-off) cut off after $seconds s"
[[ $(count passed) -gt 0 && $(count failed) == 0 ]]
