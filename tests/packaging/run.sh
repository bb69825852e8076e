#!/usr/bin/env bash
# Installs the Debian package that `make dist` built into a fresh Debian system, runs its services, and removes it.
#
#   tests/packaging/run.sh [PACKAGE]     by default target/artifacts/leafseal_*.deb, with leafseal-tpm2_*.deb beside it
#
# As root on Linux, with debootstrap and systemd-nspawn, the system is a container that boots its own systemd, so that the services run
# under all restrictions of their units; the first run downloads it. Otherwise the package is unpacked into a scratch folder, and the
# engine runs from there without the units' restrictions.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}

die() {
  echo "tests/packaging: $1" >&2
  exit 2
}

package=${1:-$(compgen -G "$target/artifacts/leafseal_*.deb" || true)}
[[ -f $package ]] || die 'build the package first: make dist'
package=$(cd "$(dirname "$package")" && pwd)/$(basename "$package")

tpm2_package=$(compgen -G "$(dirname "$package")/leafseal-tpm2_*.deb" || true)
[[ -f $tpm2_package ]] || die "there is no package leafseal-tpm2 beside $package"

missing() {
  local tool
  [[ $(uname) == Linux && $(id -u) == 0 ]] || { echo 'root on Linux' && return; }
  for tool in debootstrap systemd-nspawn; do
    command -v "$tool" >/dev/null || { echo "$tool" && return; }
  done
}

# A minimal Debian with the packages that the test uses, created once. Nothing writes to it: each run has an overlay of its own.
make_system() {
  local system=$1 packages=systemd-sysv,dbus,adduser,procps,ca-certificates,curl,python3
  [[ -f $system.stamp && $(<"$system.stamp") == "$packages" ]] && return
  echo '== packaging: debootstrap (a minute or two, 250 MB)'
  rm -rf "$system" "$system.stamp"
  mkdir -p "$system"
  debootstrap --variant=minbase --include="$packages" bookworm "$system" >"$system.log" 2>&1 ||
    { tail "$system.log" >&2 && die 'debootstrap failed'; }
  echo "$packages" >"$system.stamp"
}

# The archive that was built with the package carries the same licences.
check_archive() {
  local archive=$1 files file
  files=$(tar --list --gzip --file "$archive")
  for file in LICENSE CHANGELOG.md THIRD-PARTY-NOTICES rust-standard-library.html.gz; do
    grep -q "^[^/]*/$file\$" <<<"$files" || die "$archive has no $file"
  done
}

in_container() {
  local system=$target/packaging/system results status=0
  make_system "$system"
  results=$(mktemp -d "${TMPDIR:-/tmp}/leafseal-packaging.XXXXXX")
  trap "rm -rf '$results'" EXIT
  # Its own network: nothing but a loopback device. `systemd.wants` starts the test once the system has booted.
  systemd-nspawn --quiet --register=no --keep-unit --directory "$system" --volatile=overlay --private-network --console=pipe \
    --machine=leafseal-packaging --bind-ro="$package:/package.deb" --bind-ro="$tpm2_package:/tpm2.deb" --bind-ro="$here:/tests" --bind-ro="$root/docs/guides/installation.md:/installation.md" \
    --bind-ro="$here/package-test.service:/etc/systemd/system/package-test.service" --bind="$results:/results" \
    --boot systemd.wants=package-test.service </dev/null >"$results/console" 2>&1 || status=$?
  cat "$results/log" || tail -30 "$results/console"
  return "$status"
}

# The part of the test that needs neither root nor systemd: the files are in place and the engine starts, serves and stops.
in_folder() {
  local folder status=0
  folder=$(mktemp -d "${TMPDIR:-/tmp}/leafseal-packaging.XXXXXX")
  trap "rm -rf '$folder'" EXIT
  dpkg-deb --extract "$package" "$folder/root"
  PATH=$folder/root/usr/bin:$PATH LEAFSEAL_DIR=$folder/state LEAFSEAL_CONFIG=$folder/root/etc/leafseal/leafseal.toml \
    bash "$here/unpacked.sh" "$folder/root" || status=$?
  return "$status"
}

# The package of the program for TPMs: its files, what it depends on, and that its program starts where the TSS is installed.
check_tpm2() {
  local folder depends text file
  folder=$(mktemp -d "${TMPDIR:-/tmp}/leafseal-packaging.XXXXXX")
  depends=$(dpkg-deb --field "$tpm2_package" Depends)
  for text in libc6 libtss2-esys tpm-udev; do
    [[ $depends == *"$text"* ]] || die "$tpm2_package does not depend on $text"
  done
  [[ $(dpkg-deb --field "$tpm2_package" Version) == "$(dpkg-deb --field "$package" Version)" ]] || die 'the packages have two versions'
  dpkg-deb --extract "$tpm2_package" "$folder"
  for file in copyright changelog.Debian.gz THIRD-PARTY-NOTICES rust-standard-library.html.gz; do
    [[ -s $folder/usr/share/doc/leafseal-tpm2/$file ]] || die "$tpm2_package has no $file"
  done
  grep -q '^tss-esapi ' "$folder/usr/share/doc/leafseal-tpm2/THIRD-PARTY-NOTICES" || die "$tpm2_package has no licence of tss-esapi"
  # The drop-in is what the guide says.
  while read -r text; do
    grep -qxF "$text" "$root/docs/guides/key-ceremonies.md" || die "the guide's drop-in has no $text"
  done < <(grep '^[A-Z][A-Za-z]*=' "$folder/usr/lib/systemd/system/leafseal.service.d/tpm2.conf")
  if ldconfig -p | grep -q libtss2-esys; then
    # Its parent has ended, so it ends.
    "$folder/usr/bin/leafseal-tpm2" </dev/null >"$folder/out" 2>&1 || [[ $? -lt 126 ]] || die "leafseal-tpm2 does not start: $(<"$folder/out")"
  fi
  rm -rf "$folder"
}

archive=$(compgen -G "$(dirname "$package")/leafseal-*.tar.gz" || true)
if [[ -f $archive ]]; then check_archive "$archive"; fi
check_tpm2

lacks=$(missing)
if [[ -z $lacks ]]; then
  echo '== packaging: install, run and remove the package under systemd'
  in_container
else
  [[ ${PACKAGING:-} != systemd ]] || die "the test under systemd needs $lacks"
  echo "== packaging: run the unpacked package; a test under systemd needs $lacks"
  in_folder
fi
