#!/usr/bin/env bash
# Builds the kernels for AArch64 and runs their tests under QEMU, which has the ARMv8 cryptographic extension: known answers, Wycheproof's
# vectors, XAES-256-GCM's accumulated rounds, and the comparison with another library. QEMU's times mean nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=aarch64-unknown-linux-gnu
packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
if ! command -v qemu-aarch64 >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
  if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
    echo "aarch64: install ${packages[*]} first" >&2
    exit 1
  fi
  echo "== setup: apt-get install ${packages[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi
rustup target add "$target"

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64 -L /usr/aarch64-linux-gnu'
cargo clippy --profile checked --target "$target" --package leafseal-lanes --all-targets -- -D warnings
tests=(cargo test --profile checked --target "$target" --package leafseal-lanes)
"${tests[@]}"
# Nothing above fails where the kernel was not even detected.
"${tests[@]}" --test gcm wycheproof_in_every_lane -- --nocapture | grep 'in 9 places each through armv8'
"${tests[@]}" --test xaes -- --nocapture | grep '10,000 accumulated rounds through armv8'
