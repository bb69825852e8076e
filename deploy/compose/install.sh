#!/usr/bin/env bash
# Copies to each volume what its reader needs of /admin, with the owner that the reader runs as. compose.yaml runs it.
#
#   install.sh engine|database|root-key|relay…
set -euo pipefail
umask 077
certificates=/admin/certs
leafseal=65532

# give OWNER FOLDER FILE…
give() {
  local owner=$1 folder=$2
  shift 2
  mkdir -p "$folder"
  install --owner="$owner" --group="$owner" --mode=600 "$@" "$folder/"
  chown "$owner:$owner" "$folder"
}

# One password for all who open the store, created once.
if [[ ! -e /admin/password ]]; then
  head -c 24 /dev/urandom | base64 --wrap=0 | tr '+/' '-_' >/admin/password
  chown "$leafseal:$leafseal" /admin/password
fi

for volume; do
  case $volume in
  engine)
    give "$leafseal" /engine/certs "$certificates"/{ca.pem,server.pem,server.key}
    give "$leafseal" /engine /admin/password
    ;;
  database) give postgres /database "$certificates"/{server.pem,server.key} /admin/password ;;
  root-key) chown "$leafseal:$leafseal" /root-key && chmod 700 /root-key ;;
  relay) give "$leafseal" /relay/certs "$certificates"/{ca.pem,relay.pem,relay.key} && chown "$leafseal:$leafseal" /relay ;;
  *) echo "install.sh: unknown volume $volume" >&2 && exit 2 ;;
  esac
done
