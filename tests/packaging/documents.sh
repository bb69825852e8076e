# Shared by the tests: the licences and changelogs that a package carries. Sourced.

# check_documents ROOT: those below ROOT, the folder into which the package is installed or unpacked.
check_documents() {
  local folder=$1/usr/share/doc/leafseal changes file
  for file in copyright changelog.Debian.gz CHANGELOG.md.gz THIRD-PARTY-NOTICES rust-standard-library.html.gz examples/relay.toml; do
    [[ -s $folder/$file ]] || { echo "the package has no usr/share/doc/leafseal/$file" >&2 && return 1; }
  done
  [[ $(sed -n 1p "$folder/copyright") == 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/' ]]
  grep -q '^Files: \*$' "$folder/copyright"
  changes=$(gzip --decompress --stdout "$folder/changelog.Debian.gz")
  [[ $changes =~ ^leafseal\ \([0-9.]+-1\)\ unstable\;\ urgency=medium ]]
  grep -qE '^ -- .+ <.+@.+>  [A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} ' <<<"$changes"
  # C libraries inside other packages.
  for file in deps/boringssl/LICENSE jemalloc/COPYING zstd/COPYING; do
    grep -qE "^  \[[0-9]+\] $file\$" "$folder/THIRD-PARTY-NOTICES" || { echo "THIRD-PARTY-NOTICES has no $file" >&2 && return 1; }
  done
}
