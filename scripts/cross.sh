#!/usr/bin/env bash
# Builds the native modules of the Node and Java packages for Linux on x86-64 and AArch64, with glibc 2.28 or newer and with musl, on any of
# these machines: Zig is the C compiler and the linker, from PyPI with cargo-zigbuild, at fixed versions, below .tools/.
#
#   scripts/cross.sh                   every target
#   scripts/cross.sh linux-arm64-gnu   some: linux-x64-gnu, linux-arm64-gnu, linux-x64-musl, linux-arm64-musl
#   PROFILE=checked scripts/cross.sh   with another profile of cargo than dist
#
# Node's modules go to bindings/node/{crypto,wire}/platforms as packages; those for Java, with glibc only, below bindings/java/jca/natives. Each is
# checked for what it needs of the C library. With a Node for AArch64 in NODE_ARM64 and qemu-aarch64 (Debian: qemu-user, libstdc++6-arm64-cross),
# the module for linux-arm64-gnu is also loaded and compared with Node's own hashes and ciphers; with musl (Debian: musl), that for
# linux-x64-musl is loaded by a small program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly GLIBC=2.28
readonly ZIG=0.17.1 ZIGBUILD=0.24.1
profile=${PROFILE:-dist}
targets=("$@")
((${#targets[@]})) || targets=(linux-x64-gnu linux-arm64-gnu linux-x64-musl linux-arm64-musl)

die() {
  printf 'cross: %s\n' "$1" >&2
  exit 2
}

# Prints the name of Rust's target.
rust_target() {
  case $1 in
  linux-x64-gnu) echo x86_64-unknown-linux-gnu ;;
  linux-arm64-gnu) echo aarch64-unknown-linux-gnu ;;
  linux-x64-musl) echo x86_64-unknown-linux-musl ;;
  linux-arm64-musl) echo aarch64-unknown-linux-musl ;;
  *) die "unknown target $1: linux-x64-gnu, linux-arm64-gnu, linux-x64-musl or linux-arm64-musl" ;;
  esac
}

install_zig() {
  local environment=.tools/zig
  [[ -x $environment/bin/cargo-zigbuild && $(cat "$environment/versions" 2>/dev/null) == "$ZIG $ZIGBUILD" ]] || {
    echo "== cross: install ziglang $ZIG and cargo-zigbuild $ZIGBUILD"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check "ziglang==$ZIG" "cargo-zigbuild==$ZIGBUILD"
    echo "$ZIG $ZIGBUILD" >"$environment/versions"
  }
  PATH=$PWD/$environment/bin:$PATH
}

# The newest symbol version of glibc that a library needs.
needed_glibc() {
  readelf --version-info --wide "$1" | grep -o 'GLIBC_2\.[0-9]*' | sort --version-sort | tail -1
}

check_libc() {
  local file=$1 target=$2 needed
  needed=$(needed_glibc "$file" || true)
  case $target in
  *-gnu)
    [[ $(printf '%s\n' "GLIBC_$GLIBC" "$needed" | sort --version-sort | tail -1) == "GLIBC_$GLIBC" ]] ||
      die "$file needs $needed, which is newer than GLIBC_$GLIBC"
    ;;
  *-musl) [[ -z $needed ]] || die "$file needs glibc ($needed)" ;;
  esac
}

# Where libclang finds the headers of the C library and of the compiler: in Zig.
clang_arguments() {
  local folder name architecture=${1%%-*} abi=${1##*-} processor=x86 generic=glibc
  folder=$(.tools/zig/bin/python3 -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "lib")')
  [[ $architecture == x86_64 ]] || processor=$architecture
  [[ $abi == gnu ]] || generic=$abi
  printf -- '-nostdinc -D__GLIBC_MINOR__=%s' "${GLIBC#2.}"
  for name in include "libc/include/$architecture-linux-$abi" "libc/include/$processor-linux-$abi" "libc/include/generic-$generic" \
    "libc/include/$processor-linux-any" libc/include/any-linux-any; do
    [[ ! -d $folder/$name ]] || printf ' -isystem %s' "$folder/$name"
  done
}

build() {
  local target=$1 triple
  triple=$(rust_target "$target")
  echo "== cross: $target"
  rustup target add "$triple" >/dev/null 2>&1
  local versioned=$triple
  # cargo-zigbuild's variable for bindgen, with underscores, leaves out what a compiler brings itself, such as stddef.h; this one is read first.
  local variables=(CARGO_TARGET_DIR=target/cross "BINDGEN_EXTRA_CLANG_ARGS_$triple=$(clang_arguments "$triple")")
  if [[ $target == *-gnu ]]; then
    versioned=$triple.$GLIBC
  else
    # A library for musl that is loaded must be linked dynamically.
    variables+=(RUSTFLAGS=-Ctarget-feature=-crt-static)
  fi
  env "${variables[@]}" cargo zigbuild --quiet --profile "$profile" --config "profile.$profile.strip=\"symbols\"" --target "$versioned" \
    --package leafseal-node-crypto --package leafseal-wire --package leafseal-java
  built=target/cross/$triple/$profile
  check_libc "$built/libleafseal_node_crypto.so" "$target"
  check_libc "$built/libleafseal_wire.so" "$target"
  check_libc "$built/libleafseal_java.so" "$target"
}

pack_for_node() {
  local target=$1
  cp "$built/libleafseal_node_crypto.so" "$built/crypto.node"
  cp "$built/libleafseal_wire.so" "$built/wire.node"
  node bindings/node/crypto/scripts/pack-platform.mjs "$target" "$built/crypto.node"
  node bindings/node/wire/scripts/pack-platform.mjs "$target" "$built/wire.node"
}

# The module in the place of this machine's, under the other machine's Node.
try_on_arm64() {
  [[ -n ${NODE_ARM64:-} ]] || return 0
  local folder
  folder=$(mktemp -d)
  cp -r bindings/node/crypto/{index.js,lib,package.json} "$folder"
  cp "$built/crypto.node" "$folder"
  qemu-aarch64 -L /usr/aarch64-linux-gnu "$NODE_ARM64" scripts/cross-check.cjs "$folder"
  rm -rf "$folder"
}

# By a small program for musl, where its loader is installed.
try_on_musl() {
  local program=target/cross/load
  [[ -e /lib/ld-musl-x86_64.so.1 ]] || return 0
  .tools/zig/bin/python3 -m ziglang cc -O2 -fno-sanitize=all -target x86_64-linux-musl -dynamic scripts/cross-load.c -o "$program"
  "$program" "$built/libleafseal_node_crypto.so"
}

keep_for_java() {
  local target=$1 processor=x86_64
  [[ $target != *-arm64-* ]] || processor=aarch64
  local folder=bindings/java/jca/natives/linux-$processor/io/leafseal/jca/native/linux-$processor
  mkdir -p "$folder"
  cp "$built/libleafseal_java.so" "$folder/libleafseal_java.so.new"
  mv "$folder/libleafseal_java.so.new" "$folder/libleafseal_java.so"
}

install_zig
for target in "${targets[@]}"; do
  build "$target"
  pack_for_node "$target"
  [[ $target != *-gnu ]] || keep_for_java "$target"
  [[ $target != linux-arm64-gnu ]] || try_on_arm64
  [[ $target != linux-x64-musl ]] || try_on_musl
done
