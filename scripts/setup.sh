#!/usr/bin/env bash
# Installs the tools that are missing on this machine; prints nothing if none is missing.
#
#   scripts/setup.sh build   tools for a build
#   scripts/setup.sh test    tools for a build, the checks and the tests
#   scripts/setup.sh deny    tools for a build and cargo-deny, which `cargo xtask check` runs where the dependencies changed
#   scripts/setup.sh fuzz    tools for a build and the fuzz targets
#   scripts/setup.sh dist    tools for a build and the packages of a release
#   scripts/setup.sh kubernetes   tools for a build and `make kubernetes`
#
# Debian packages need root; without it the script names them and ends with 1. Our own tools go to .tools/ and nowhere else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

purpose=${1:-build}
case $purpose in
build | test | deny | fuzz | dist | kubernetes) ;;
*)
  echo "usage: scripts/setup.sh build|test|deny|fuzz|dist|kubernetes" >&2
  exit 2
  ;;
esac

has() { command -v "$1" >/dev/null 2>&1; }

# bindgen reads BoringSSL's headers through libclang, a shared library without a command to look for.
has_libclang() {
  [[ -n ${LIBCLANG_PATH:-} ]] && return 0
  compgen -G '/usr/lib/llvm*/lib/libclang*.so*' >/dev/null && return 0
  compgen -G '/usr/lib/*/libclang*.so*' >/dev/null && return 0
  compgen -G '/Library/Developer/CommandLineTools/usr/lib/libclang.dylib' >/dev/null
}

# Debian keeps the server's programs out of the path, and those of every version apart.
has_postgres() {
  compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || { has initdb && has postgres; }
}

packages() {
  local missing=()
  has c++ || missing+=(g++)
  has cmake || missing+=(cmake)
  has clang || missing+=(clang)
  has_libclang || missing+=(libclang-dev)
  has pkg-config || missing+=(pkg-config)
  if [[ $purpose == test ]]; then
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    has curl || missing+=(curl)
    has haproxy || [[ -x /usr/sbin/haproxy ]] || missing+=(haproxy)
    has_postgres || missing+=(postgresql)
    has pgbouncer || [[ -x /usr/sbin/pgbouncer ]] || missing+=(pgbouncer)
    # A hardware security module and a TPM in software, their tools, and the library with which leafseal-tpm2 is built.
    [[ $(uname) != Linux ]] || has softhsm2-util || missing+=(softhsm2)
    [[ $(uname) != Linux ]] || has pkcs11-tool || missing+=(opensc)
    [[ $(uname) != Linux ]] || has swtpm || missing+=(swtpm)
    [[ $(uname) != Linux ]] || has tpm2_pcrextend || missing+=(tpm2-tools)
    [[ $(uname) != Linux ]] || pkg-config --exists tss2-esys 2>/dev/null || missing+=(libtss2-dev)
    # systemd-analyze checks the units that the package installs.
    [[ $(uname) != Linux ]] || has systemd-analyze || missing+=(systemd)
  fi
  if [[ $purpose == kubernetes ]]; then
    has openssl || missing+=(openssl)
  fi
  if [[ $purpose == dist ]]; then
    has objcopy || missing+=(binutils)
    has dpkg-shlibdeps || missing+=(dpkg-dev)
    has jq || missing+=(jq)
    pkg-config --exists tss2-esys 2>/dev/null || missing+=(libtss2-dev)
  fi
  ((${#missing[@]} == 0)) && return 0
  if ! has apt-get || [[ $(id -u) != 0 ]]; then
    echo "setup: install these first (names of Debian packages): ${missing[*]}" >&2
    exit 1
  fi
  echo "== setup: apt-get install ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# unpack PACKAGE PROGRAM…: takes programs out of a Debian package into .tools/bin. Installing it would also start its server, on all addresses.
unpack() {
  local package=$1 program folder is_complete=yes
  shift
  for program; do PATH=$PWD/.tools/bin:$PATH has "$program" || is_complete=; done
  [[ -z $is_complete ]] || return 0
  if ! has apt-get || ! has dpkg-deb; then
    echo "setup: install these programs first: $*" >&2
    exit 1
  fi
  echo "== setup: unpack $* of the Debian package $package"
  folder=$(mktemp -d)
  [[ $(id -u) != 0 ]] || apt-get update -qq
  (cd "$folder" && apt-get download -qq -o APT::Sandbox::User=root "$package" && dpkg-deb --extract ./*.deb content)
  mkdir -p .tools/bin
  for program; do install -m 755 "$folder/content/usr/bin/$program" .tools/bin/; done
  rm -rf "$folder"
}

rust() {
  if ! has cargo; then
    echo "setup: install Rust first, for example through rustup; rust-toolchain.toml names the version" >&2
    exit 1
  fi
  # Asking for the version makes rustup fetch the toolchain that rust-toolchain.toml names, where it is not there yet.
  cargo --version >/dev/null
  [[ $purpose == test ]] || return 0
  if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    echo "== setup: rustup component add rustfmt clippy"
    rustup component add rustfmt clippy
  fi
}

# Installs a cargo subcommand into .tools/. Without optimisation, which more than doubles the time and saves seconds of a run.
tool() {
  local name=$1 version=$2
  # Called as cargo calls it; not every subcommand has --version without its own name before it.
  if PATH=$PWD/.tools/bin:$PATH "$name" "${name#cargo-}" --version 2>/dev/null | grep -qF " $version"; then
    return 0
  fi
  echo "== setup: cargo install $name $version (some minutes)"
  CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$PWD/.tools/target \
    cargo install --quiet --debug --locked --force --root .tools --version "$version" "$name"
  rm -rf .tools/target
}

packages
rust
case $purpose in
test) unpack prometheus prometheus promtool ;;
deny) tool cargo-deny 0.20.2 ;;
kubernetes) unpack etcd-server etcd ;;
fuzz) tool cargo-fuzz 0.13.2 ;;
dist)
  tool cargo-deb 3.8.0
  tool cargo-cyclonedx 0.5.9
  ;;
esac
