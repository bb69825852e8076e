#!/usr/bin/env bash
# Builds the native part of io.leafseal:leafseal-jca for this machine, and puts it where bindings/java/jca/pom.xml packs it from.
#
#   scripts/java-native.sh            with cargo's profile dist, as it is published
#   scripts/java-native.sh checked    with assertions, as the tests run it
#   WORKSPACE_BUILD=target/checked scripts/java-native.sh    from this folder, where cargo has built it
#
# Other platforms' libraries come from their own machines: copy their folders below bindings/java/jca/natives/ before `mvn package`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

profile=${1:-dist}

case $(uname -s) in
Linux) system=linux file=libleafseal_java.so ;;
Darwin) system=macos file=libleafseal_java.dylib ;;
MINGW* | MSYS*) system=windows file=leafseal_java.dll ;;
*)
  echo "java-native: no name for the operating system $(uname -s)" >&2
  exit 2
  ;;
esac
case $(uname -m) in
x86_64 | amd64) processor=x86_64 ;;
aarch64 | arm64) processor=aarch64 ;;
*)
  echo "java-native: no name for the processor $(uname -m)" >&2
  exit 2
  ;;
esac

if [[ -n ${WORKSPACE_BUILD:-} ]]; then
  built=$WORKSPACE_BUILD/$file
else
  cargo build --quiet --profile "$profile" --package leafseal-java
  built=${CARGO_TARGET_DIR:-target}/$profile/$file
fi
platform=$system-$processor
folder=bindings/java/jca/natives/$platform/io/leafseal/jca/native/$platform
mkdir -p "$folder"
# By a new name first: a virtual machine may have the old file loaded.
cp "$built" "$folder/$file.new"
if [[ $system != windows ]]; then strip "$folder/$file.new"; fi
mv "$folder/$file.new" "$folder/$file"
