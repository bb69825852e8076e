#!/usr/bin/env bash
# The npm packages under bindings/node: their own tests, and `npm pack` of each, installed into an empty project.
#
#   LEAFSEAL=target/checked/leafseal tests/node/run.sh    every package
#   LEAFSEAL=… tests/node/run.sh crypto                    some packages
#   SEED=20000 CONVERSATIONS=100000 LEAFSEAL=… tests/node/run.sh client    other conversations, or more
#   RUNS=10 CASES=1000000 LEAFSEAL=… tests/node/run.sh     longer: see the heads of the test files
#
# Needs Node 20 with npm, and Rust for the native modules (PROFILE names cargo's profile, checked by default). Installs pinned packages
# into bindings/node/node_modules/, tests/node/node_modules/, examples/node/node_modules/ and target/npm/, again only when a lock file has
# changed. The tests reach nothing but 127.0.0.1. Those of the wire package are left to tests/artillery, those in Chromium to tests/browser.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/node
source "$here/../common.sh"
use_leafseal
need_node

# Every package is built and packed; these have tests that run here.
all=(wire crypto client)
packages=("$@")
((${#packages[@]})) || packages=("${all[@]}")

install_npm bindings/node
install_npm tests/node
install_npm examples/node

for package in "${packages[@]}"; do
  [[ -d $root/bindings/node/$package ]] || die "no package $package in bindings/node; there are: ${all[*]}"
  echo "== node: build @leafseal/$package"
  if [[ -f $root/bindings/node/$package/Cargo.toml ]]; then
    node "$root/bindings/node/$package/scripts/build.mjs" "${PROFILE:-checked}"
  else
    npm run --silent --prefix "$root/bindings/node/$package" prepack
    npm run --silent --prefix "$root/bindings/node/$package" lint
  fi
done

# The tests of a package, but for those that need Chromium.
tests_of() {
  find "$root/bindings/node/$1/test" -maxdepth 1 -name '*.test.mjs' -not -name 'browser*' | sort
}

if [[ " ${packages[*]} " == *' client '* ]]; then
  echo "== node: ${CONVERSATIONS:-10000} conversations between the client and engines"
  generate_conversations
fi

# All run even when one fails, so that one run shows every failure.
status=0
for package in "${packages[@]}"; do
  # tests/artillery runs them, against an engine.
  [[ $package != wire ]] || continue
  echo "== node: node --test of @leafseal/$package"
  mapfile -t tests < <(tests_of "$package")
  node --test --test-reporter=spec "${tests[@]}" || status=$?
done
echo '== node: the packages in an empty project'
# The client's own tests have this.
packed=()
for package in "${packages[@]}"; do [[ $package == client ]] || packed+=("$package"); done
PACKAGES="${packed[*]}" node --test --test-reporter=spec "$here"/*.test.mjs || status=$?
exit "$status"
