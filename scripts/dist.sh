#!/usr/bin/env bash
# Builds the files of a release in target/artifacts:
#
#   leafseal-VERSION-TARGET.tar.gz         program, units, man pages, completions, examples
#   leafseal-VERSION-TARGET.debug.tar.xz   debug symbols, to unpack at /
#   leafseal_VERSION_ARCH.deb              the same for Debian and Ubuntu, with users and units
#   leafseal-tpm2_VERSION_ARCH.deb         the program for slots in a TPM, which needs the system's TSS
#   leafseal-VERSION.cdx.json              software bill of materials (CycloneDX)
#   Containerfile, container/               what an image is built from
#   SHA256SUMS
#
# All but the debug symbols and the bill of materials carry the licence texts of the libraries in the program.
#
# DIST_PROGRAM and DIST_TPM2_PROGRAM name programs that are built already; without them the profile `dist` is built.
# DEBFULLNAME and DEBEMAIL are the publisher, as in Debian's tools: the maintainer of the package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
# Below the profile's folder, where cargo-deb looks for files that a build has made.
stage=$target/dist/package
artifacts=$target/artifacts
# The maximum size of the published program, in bytes.
size_max=25000000
# Everything else is linked statically. The C library is not: name resolution loads modules that must fit it. leafseal-tpm2 also takes the
# TSS and the C++ library of the system.
libraries='libc.so.6 libm.so.6 libgcc_s.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1'

version=$(cargo metadata --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "leafseal-cli").version')
triple=$(rustc -vV | sed -n 's/^host: //p')
name=leafseal-$version-$triple
# The same commit gives the same archives.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# The default is an address that can never exist: a package that is not published has no maintainer.
maintainer="${DEBFULLNAME:-The Leafseal authors} <${DEBEMAIL:-nobody@leafseal.invalid}>"

say() { printf '== dist: %s\n' "$1"; }
die() { printf 'dist: %s\n' "$1" >&2; exit 1; }
pack() { tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" "$@"; }

build() {
  local archive
  if [[ -n ${DIST_PROGRAM:-} ]]; then
    program=$DIST_PROGRAM
    return
  fi
  say 'build the program (profile dist)'
  # The linker prefers a shared library within a folder, and takes folders in order: this one has only the archive.
  mkdir -p "$target/dist/static"
  archive=$(c++ -print-file-name=libstdc++.a)
  [[ -f $archive ]] || die 'the compiler has no libstdc++.a: install its development files'
  ln -sf "$archive" "$target/dist/static/libstdc++.a"
  LEAFSEAL_COMMIT=$(git rev-parse --short HEAD) cargo rustc --locked --profile dist --package leafseal-cli --bin leafseal -- \
    -L "native=$target/dist/static"
  program=$target/dist/leafseal
}

# The program for TPMs is a package of its own, so that leafseal does not need the TSS.
build_tpm2() {
  if [[ -n ${DIST_TPM2_PROGRAM:-} ]]; then
    tpm2_program=$DIST_TPM2_PROGRAM
    return
  fi
  say 'build leafseal-tpm2 (profile dist)'
  cargo build --locked --profile dist --package leafseal-custody --features tpm2-program --bin leafseal-tpm2
  tpm2_program=$target/dist/leafseal-tpm2
}

# check_libraries PROGRAM ALLOWED: no other shared library is needed; ALLOWED is a pattern.
check_libraries() {
  local library
  for library in $(readelf --dynamic "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    # shellcheck disable=SC2053  # a pattern
    [[ " $libraries " == *" $library "* || $library == $2 ]] ||
      die "$(basename "$1") needs the shared library $library, which must be linked statically"
  done
}

# strip_program PROGRAM NAME: the program without symbols as NAME, and its symbols under the name by which debuggers look for them.
strip_program() {
  local id symbols
  say "separate the debug symbols of $2"
  id=$(readelf --notes "$1" | sed -n 's/.*Build ID: //p')
  [[ -n $id ]] || die "$1 has no build ID"
  symbols=$stage/debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
  mkdir -p "$(dirname "$symbols")"
  objcopy --only-keep-debug --compress-debug-sections=zlib "$1" "$symbols"
  chmod 644 "$symbols"
  objcopy --strip-all "$1" "$stage/$2"
  chmod 755 "$stage/$2"
  check_size "$stage/$2"
}

check_size() {
  local size
  size=$(stat --format=%s "$1")
  printf '   %s: %d bytes\n' "$(basename "$1")" "$size"
  ((size < size_max)) || die "$(basename "$1") must be smaller than $size_max bytes"
}

documents() {
  say 'man pages and completions'
  "$stage/leafseal" generate "$stage"
  gzip --best --no-name "$stage"/man/man1/*.1
  gzip --best --no-name --stdout CHANGELOG.md >"$stage/CHANGELOG.md.gz"
  debian_changelog | gzip --best --no-name >"$stage/changelog.Debian.gz"
  gzip --decompress --stdout "$stage/changelog.Debian.gz" >"$stage/changelog"
  [[ $(dpkg-parsechangelog --file "$stage/changelog" --show-field Version) == "$version-1" &&
    $(dpkg-parsechangelog --file "$stage/changelog" --show-field Maintainer) == "$maintainer" ]] ||
    die "CHANGELOG.md does not describe version $version"
}

# CHANGELOG.md as Debian's tools read it: an entry for each release. What is not released yet is an entry of this version.
debian_changelog() {
  local unreleased=$version
  if grep -qF "## [$version]" CHANGELOG.md; then unreleased=''; fi
  awk -v unreleased="$unreleased" -v now="@$SOURCE_DATE_EPOCH" -v maintainer="$maintainer" '
    function finish(command, stamp) {
      if (release != "" && has_items) {
        command = "date --utc --rfc-email --date=" date
        command | getline stamp
        close(command)
        printf "leafseal (%s-1) unstable; urgency=medium\n%s\n -- %s  %s\n\n", release, text, maintainer, stamp
      }
      text = ""
      has_items = 0
    }
    /^## \[/ {
      finish()
      release = substr($2, 2, length($2) - 2)
      date = $4
      if (release == "Unreleased") { release = unreleased; date = now }
    }
    /^### / { text = text "\n  [ " substr($0, 5) " ]\n" }
    /^- / { text = text "  * " substr($0, 3) "\n"; has_items = 1 }
    /^  / && has_items { text = text "    " substr($0, 3) "\n" }
    END { finish() }' CHANGELOG.md
}

# The licence texts of everything that the program contains.
notices() {
  local library
  say 'notices of third-party software'
  cargo xtask licenses "$triple" leafseal >"$stage/THIRD-PARTY-NOTICES"
  cargo xtask licenses "$triple" leafseal-tpm2 >"$stage/THIRD-PARTY-NOTICES.tpm2"
  library=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
  [[ -f $library ]] || die "the Rust toolchain has no $library: install it with rustup"
  gzip --best --no-name --stdout "$library" >"$stage/rust-standard-library.html.gz"
}

tarball() {
  local folder=$stage/$name
  say "$name.tar.gz"
  mkdir -p "$folder"/{bin,etc,share/man/man1,share/completions,systemd}
  cp "$stage/leafseal" "$folder/bin/"
  cp "$stage"/man/man1/* "$folder/share/man/man1/"
  cp "$stage"/completions/* "$folder/share/completions/"
  cp deploy/systemd/*.service deploy/systemd/*.timer "$folder/systemd/"
  cp deploy/leafseal.toml examples/relay.toml "$folder/etc/"
  cp LICENSE README.md CHANGELOG.md "$stage/THIRD-PARTY-NOTICES" "$stage/rust-standard-library.html.gz" "$folder/"
  pack --directory "$stage" "$name" | gzip --best --no-name >"$artifacts/$name.tar.gz"
  check_size "$artifacts/$name.tar.gz"
  pack --directory "$stage/debug" usr | xz -2 >"$artifacts/$name.debug.tar.xz"
}

debian_package() {
  say "Debian package of $maintainer"
  cargo deb --quiet --locked --maintainer "$maintainer" --no-build --no-strip --profile dist --package leafseal-cli --output "$artifacts/"
  check_size "$(compgen -G "$artifacts/leafseal_*.deb")"
}

# A package by hand: cargo-deb makes one for each program, with its settings in a manifest, but this one has no manifest of its own.
debian_package_tpm2() {
  local root=$stage/tpm2 folder=$stage/tpm2/usr/share/doc/leafseal-tpm2 depends
  say 'Debian package leafseal-tpm2'
  install -D --mode=755 "$stage/leafseal-tpm2" "$root/usr/bin/leafseal-tpm2"
  install -D --mode=644 deploy/tpm2/leafseal.conf "$root/usr/lib/systemd/system/leafseal.service.d/tpm2.conf"
  install -D --mode=644 deploy/tpm2/copyright "$folder/copyright"
  install --mode=644 "$stage/changelog.Debian.gz" "$stage/rust-standard-library.html.gz" "$folder/"
  install --mode=644 "$stage/THIRD-PARTY-NOTICES.tpm2" "$folder/THIRD-PARTY-NOTICES"
  install -D --mode=755 --target-directory="$root/DEBIAN" deploy/tpm2/postinst deploy/tpm2/postrm
  # dpkg-shlibdeps reads a source package's file of control fields, which this is not.
  mkdir -p "$stage/shlibs/debian"
  printf 'Source: leafseal\n' >"$stage/shlibs/debian/control"
  depends=$(cd "$stage/shlibs" && dpkg-shlibdeps -O "$stage/leafseal-tpm2" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
  [[ $depends == *libtss2-esys* ]] || die 'dpkg-shlibdeps does not find the package of the TSS'
  cat >"$root/DEBIAN/control" <<CONTROL
Package: leafseal-tpm2
Source: leafseal
Version: $version-1
Architecture: $(dpkg --print-architecture)
Maintainer: $maintainer
Installed-Size: $(du --summarize --block-size=1024 "$root/usr" | cut -f1)
Depends: $depends, tpm-udev
Enhances: leafseal
Section: utils
Priority: optional
Description: key slots of Leafseal in a TPM 2.0
 The program by which leafseal keeps a key slot in the TPM of the machine,
 bound to PCRs, and a drop-in by which the service leafseal may use it.
CONTROL
  (cd "$root" && find usr -type f -print0 | LC_ALL=C sort --zero-terminated | xargs -0 md5sum >DEBIAN/md5sums)
  dpkg-deb --root-owner-group -Zxz --build "$root" "$artifacts/" >/dev/null
}

# The image takes the program with its licences; an engine needs nothing else.
container() {
  mkdir -p "$artifacts/container"
  cp "$stage/leafseal" deploy/container/Containerfile LICENSE "$stage/THIRD-PARTY-NOTICES" "$stage/rust-standard-library.html.gz" \
    "$artifacts/container/"
}

bill_of_materials() {
  local written=crates/cli/leafseal-$version.cdx.json
  say 'software bill of materials'
  cargo cyclonedx --quiet --manifest-path crates/cli/Cargo.toml --format json --spec-version 1.5 --override-filename "leafseal-$version.cdx"
  # It writes one beside the manifest of every package of the workspace, each with this machine's path of that package.
  sed "s|$PWD|/leafseal|g" "$written" >"$artifacts/$(basename "$written")"
  find crates bindings xtask -name "leafseal-$version.cdx.json" -delete
  jq -e '.bomFormat == "CycloneDX" and (.components | length > 50)' "$artifacts/$(basename "$written")" >/dev/null ||
    die 'the bill of materials is incomplete'
}

rm -rf "$stage" "$artifacts"
mkdir -p "$stage" "$artifacts"
build
build_tpm2
strip_program "$program" leafseal
check_libraries "$stage/leafseal" ''
strip_program "$tpm2_program" leafseal-tpm2
check_libraries "$stage/leafseal-tpm2" 'lib@(tss2-*|stdc++).so*'
documents
notices
tarball
debian_package
debian_package_tpm2
container
bill_of_materials
say 'checksums'
(cd "$artifacts" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS && cat SHA256SUMS)
