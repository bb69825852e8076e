#!/usr/bin/env bash
# Runs each fuzz target for SECONDS. The seeds in fuzz/corpus/ stay as they are; new inputs go to fuzz/corpus-work/,
# and an input that breaks a target to fuzz/artifacts/: add it to fuzz/corpus/ together with the mend.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:?usage: scripts/fuzz.sh SECONDS [TARGET...]}
shift

# The sanitizer needs an unstable flag: of a nightly compiler if one is installed, else of the pinned one with RUSTC_BOOTSTRAP.
cargo=(cargo)
if command -v rustup >/dev/null && rustup toolchain list | grep -q '^nightly'; then
  cargo+=(+nightly)
else
  export RUSTC_BOOTSTRAP=1
fi

targets=("$@")
if ((${#targets[@]} == 0)); then
  for file in fuzz/fuzz_targets/*.rs; do
    targets+=("$(basename "$file" .rs)")
  done
fi

for target in "${targets[@]}"; do
  echo "== fuzz: $target for $seconds seconds"
  mkdir -p "fuzz/corpus-work/$target" "fuzz/corpus/$target"
  "${cargo[@]}" fuzz run "$target" "fuzz/corpus-work/$target" "fuzz/corpus/$target" -- \
    -max_total_time="$seconds" -max_len=65536 -timeout=10 -verbosity=0 -print_final_stats=1
done
