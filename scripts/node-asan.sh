#!/usr/bin/env bash
# Runs the tests of @leafseal/crypto with its native part under AddressSanitizer: Rust code is instrumented, and the sanitizer's allocator
# checks what C and assembly do to memory of the heap. LeakSanitizer stays off: Node frees little at its end.
#
#   scripts/node-asan.sh [TEST...]     files of bindings/node/crypto/test; by default those that reach the native part most
#
# Needs clang's runtime libraries (Debian: libclang-rt-14-dev), a shared library that Node loads before it starts: Rust's own is static.
# The sanitizer needs an unstable flag: of a nightly compiler if one is installed, else of the pinned one with RUSTC_BOOTSTRAP.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runtime=$(clang -print-file-name=libclang_rt.asan-x86_64.so)
if [[ ! -f $runtime ]]; then
  echo '== setup: clang runtime libraries'
  version=$(clang -dumpversion)
  if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
    echo "node-asan: install libclang-rt-${version%%.*}-dev first" >&2
    exit 1
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "libclang-rt-${version%%.*}-dev"
  runtime=$(clang -print-file-name=libclang_rt.asan-x86_64.so)
fi

cargo=(cargo)
if command -v rustup >/dev/null && rustup toolchain list | grep -q '^nightly'; then
  cargo+=(+nightly)
else
  export RUSTC_BOOTSTRAP=1
fi
host=$(rustc -vV | sed -n 's/^host: //p')

echo "== asan: build @leafseal/crypto"
# With a target, so that build scripts and macros are built without the sanitizer.
RUSTFLAGS='-Zsanitizer=address' CARGO_TARGET_DIR=target/asan \
  "${cargo[@]}" build --locked --profile checked --target "$host" --package leafseal-node-crypto
package=target/asan/package
rm -rf "$package"
mkdir -p "$package"
cp -r bindings/node/crypto/{index.js,index.mjs,lib,package.json} "$package"
cp "target/asan/$host/checked/libleafseal_node_crypto.so" "$package/crypto.node"

# Without instrumentation, passing would mean nothing.
nm -D "$package/crypto.node" | grep 'U __asan_report_load' >/dev/null || { echo 'node-asan: the module is not instrumented' >&2; exit 1; }

tests=("$@")
((${#tests[@]})) || tests=(contract order edges hostile exit more batch copies wycheproof fuzz soak)
export CRYPTO=$PWD/$package/index.js CASES=${CASES:-20000} OPERATIONS=${OPERATIONS:-20000}
# V8 has signal handlers of its own. Freed memory is kept for a while, to find its use; little of it, so that the soak can bound memory.
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allow_user_segv_handler=1:detect_stack_use_after_return=0:quarantine_size_mb=16
export LD_PRELOAD=$runtime

status=0
for name in "${tests[@]}"; do
  echo "== asan: $name"
  node --test --test-reporter=spec "bindings/node/crypto/test/$name.test.mjs" || status=$?
done
exit "$status"
