#!/usr/bin/env bash
# The Go client: format, vet, and its tests under the race detector against engines that they start.
#
#   LEAFSEAL=target/checked/leafseal tests/go/run.sh [go test arguments]
#   SEED=20000 CONVERSATIONS=100000 LEAFSEAL=… tests/go/run.sh    other conversations, or more
#   FUZZ=60s LEAFSEAL=… tests/go/run.sh     also compares the frame scanner with the library for that time
#
# Needs Go 1.25 or newer, a C compiler, and Rust for the conversations. Go's proxy provides the pinned packages, once. The tests reach nothing but 127.0.0.1. Without such
# a Go, which `make test` does not ask for, the tests are skipped by name.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/go
source "$here/../common.sh"
use_leafseal

version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)
if [[ ! $version =~ ^go1\.([0-9]+) || ${BASH_REMATCH[1]} -lt 25 ]]; then
  echo "== go: skipped: needs Go 1.25 or newer, and found ${version:-none}"
  exit 0
fi

cd "$root/clients/go"
echo '== go: gofmt, go vet'
unformatted=$(gofmt -l .)
[[ -z $unformatted ]] || die "run gofmt -w on: $unformatted"
go mod verify
go vet ./...
echo '== go: go test -race'
go test -race -count=1 -timeout 30m "$@" ./...
echo '== go: logs of crates/audit read by sumdb and torchwood'
build_example audit_log
build_example audit_witness
AUDIT_LOG=$(dirname "$LEAFSEAL")/examples/audit_log
export AUDIT_LOG
(cd "$here/audit" && go mod verify && go vet ./... && go test -count=1 ./...)
echo "== go: ${CONVERSATIONS:-10000} generated conversations"
generate_conversations
go test -count=1 -run TestGeneratedConversations .
[[ -z ${FUZZ:-} ]] || go test -run '^$' -fuzz FuzzScanner -fuzztime "$FUZZ" .
