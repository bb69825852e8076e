#!/usr/bin/env bash
# Checks the crates that are published, and sends nothing.
#
#   scripts/publishable.sh pack      packs each as a publication does: its metadata and files are complete
#   scripts/publishable.sh compile   and compiles each from its package (BoringSSL once more, so a few minutes the first time)
#
# One call for all of them, because they may need one another in a version that no registry has yet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
pack) arguments=(package --no-verify) ;;
compile) arguments=(publish --dry-run) ;;
*)
  echo "usage: scripts/publishable.sh pack|compile" >&2
  exit 2
  ;;
esac
# A real publication insists on committed files; this checks the files as they are.
cargo "${arguments[@]}" --allow-dirty --quiet --locked \
  --package leafseal-config --package leafseal-errors --package leafseal-protocol --package leafseal-client
