#!/usr/bin/env bash
# The npm packages under bindings/node: their own tests, and `npm pack` of each, installed into an empty project.
#
#   tests/node/run.sh                            every package
#   tests/node/run.sh crypto                     some packages
#   RUNS=10 CASES=1000000 tests/node/run.sh      longer: see the heads of the test files
#
# Needs Node 20 with npm, and Rust for the native modules (PROFILE names cargo's profile, checked by default). Installs pinned packages
# into bindings/node/node_modules/, tests/node/node_modules/ and target/npm/, again only when a lock file has changed. The tests reach nothing but 127.0.0.1; the wire
# package's need the program (FIELDSEAL) and are left to tests/artillery.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/node
source "$here/../common.sh"
need_node

# Every package is built and packed; these have tests that run here.
all=(wire crypto)
packages=("$@")
((${#packages[@]})) || packages=("${all[@]}")

install_npm bindings/node
install_npm tests/node

for package in "${packages[@]}"; do
  [[ -d $root/bindings/node/$package ]] || die "no package $package in bindings/node; there are: ${all[*]}"
  echo "== node: build @fieldseal/$package"
  node "$root/bindings/node/$package/scripts/build.mjs" "${PROFILE:-checked}"
done

# All run even when one fails, so that one run shows every failure.
status=0
for package in "${packages[@]}"; do
  # tests/artillery runs them, against an engine.
  [[ $package != wire ]] || continue
  echo "== node: node --test of @fieldseal/$package"
  node --test --test-reporter=spec "$root/bindings/node/$package"/test/*.test.mjs || status=$?
done
echo '== node: the packages in an empty project'
PACKAGES="${packages[*]}" node --test --test-reporter=spec "$here"/*.test.mjs || status=$?
exit "$status"
