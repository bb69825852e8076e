#!/usr/bin/env bash
# Builds the files of a release in target/artifacts:
#
#   leafseal-VERSION-TARGET.tar.gz         program, units, man pages, completions, examples
#   leafseal-VERSION-TARGET.debug.tar.xz   debug symbols, to unpack at /
#   leafseal_VERSION_ARCH.deb              the same for Debian and Ubuntu, with users and units
#   leafseal-VERSION.cdx.json              software bill of materials (CycloneDX)
#   Containerfile, container/               what an image is built from
#   SHA256SUMS
#
# All but the debug symbols and the bill of materials carry the licence texts of the libraries in the program.
#
# DIST_PROGRAM names a program that is built already; without it the profile `dist` is built.
# DEBFULLNAME and DEBEMAIL are the publisher, as in Debian's tools: the maintainer of the package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
# Below the profile's folder, where cargo-deb looks for files that a build has made.
stage=$target/dist/package
artifacts=$target/artifacts
# The maximum size of the published program, in bytes.
size_max=25000000
# Everything else is linked statically. The C library is not: name resolution loads modules that must fit it.
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

check_libraries() {
  local library
  for library in $(readelf --dynamic "$stage/leafseal" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    [[ " $libraries " == *" $library "* ]] || die "the program needs the shared library $library, which must be linked statically"
  done
}

# The program without symbols, and its symbols under the name by which debuggers look for them.
strip_program() {
  local id
  say 'separate the debug symbols'
  id=$(readelf --notes "$program" | sed -n 's/.*Build ID: //p')
  [[ -n $id ]] || die "$program has no build ID"
  symbols=$stage/debug/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
  mkdir -p "$(dirname "$symbols")"
  objcopy --only-keep-debug --compress-debug-sections=zlib "$program" "$symbols"
  chmod 644 "$symbols"
  objcopy --strip-all "$program" "$stage/leafseal"
  chmod 755 "$stage/leafseal"
  check_libraries
  check_size "$stage/leafseal"
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
  cargo xtask licenses "$triple" >"$stage/THIRD-PARTY-NOTICES"
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
  cp deploy/systemd/*.service "$folder/systemd/"
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
strip_program
documents
notices
tarball
debian_package
container
bill_of_materials
say 'checksums'
(cd "$artifacts" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS && cat SHA256SUMS)
