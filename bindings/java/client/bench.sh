#!/usr/bin/env bash
# Compares the Java client with the native one: see src/test/java/io/leafseal/client/Bench.java.
#
#   LEAFSEAL=target/release/leafseal bindings/java/client/bench.sh [-Drounds=5] [-DroundMs=1500]
#
# NATIVE names the native program; by default cargo builds it.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(cd ../../.. && pwd)
[[ -n ${LEAFSEAL:-} ]] || { echo 'set LEAFSEAL to the path of the program' >&2; exit 2; }
LEAFSEAL=$(realpath "$LEAFSEAL")
export LEAFSEAL
if [[ -z ${NATIVE:-} ]]; then
  cargo build --quiet --manifest-path "$root/Cargo.toml" --locked --release -p leafseal-cli -p leafseal-client --example fields
  NATIVE=${CARGO_TARGET_DIR:-$root/target}/release/examples/fields
fi
mvn -q test-compile org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath -Dmdep.outputFile=target/classpath
"${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" -cp "target/classes:target/test-classes:$(<target/classpath)" io.leafseal.client.Bench "$NATIVE"
