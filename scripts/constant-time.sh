#!/usr/bin/env bash
# Runs the tests of constant time under Valgrind: secrets are marked as undefined, and whatever branches on them or reads by them is
# reported. The kernels with instructions that Valgrind does not know (AVX-512) are left to `cargo bench --bench timing`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v valgrind >/dev/null; then
  if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
    echo "constant-time: install valgrind first" >&2
    exit 1
  fi
  echo "== setup: apt-get install valgrind"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends valgrind
fi

tests=(cargo test --profile checked --package leafseal-lanes --features valgrind --lib --no-run --message-format=json)
program=$("${tests[@]}" | python3 -c 'import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        print(message["executable"])')
valgrind --quiet "$program" --test-threads=1 constant_time
