#!/usr/bin/env bash
# Compares the Java client with the native one: see src/test/java/io/fieldseal/client/Bench.java.
#
#   FIELDSEAL=target/release/fieldseal bindings/java/client/bench.sh [-Drounds=5] [-DroundMs=1500]
#
# NATIVE names the native program; by default cargo builds it.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
root=$(cd ../../.. && pwd)
[[ -n ${FIELDSEAL:-} ]] || { echo 'set FIELDSEAL to the path of the program' >&2; exit 2; }
FIELDSEAL=$(realpath "$FIELDSEAL")
export FIELDSEAL
if [[ -z ${NATIVE:-} ]]; then
  cargo build --quiet --manifest-path "$root/Cargo.toml" --locked --release -p fieldseal-cli -p fieldseal-client --example fields
  NATIVE=${CARGO_TARGET_DIR:-$root/target}/release/examples/fields
fi
mvn -q test-compile org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath -Dmdep.outputFile=target/classpath
"${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" -cp "target/classes:target/test-classes:$(<target/classpath)" io.fieldseal.client.Bench "$NATIVE"
