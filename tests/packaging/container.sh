#!/usr/bin/env bash
# Builds the image that `make dist` prepared and runs an engine from it, on a read-only root and without privileges. Needs podman or docker;
# the builder fetches the base image.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/wait.sh"
artifacts=${CARGO_TARGET_DIR:-$here/../../target}/artifacts

for builder in podman docker none; do
  if [[ $builder != none ]] && "$builder" info >/dev/null 2>&1; then break; fi
done
if [[ $builder == none ]]; then
  echo 'tests/packaging: skipped: neither podman nor docker runs here'
  exit 0
fi

image=leafseal-test
name=leafseal-test-$$
cleanup() {
  "$builder" rm --force "$name" >/dev/null 2>&1 || true
  "$builder" volume rm "$name" >/dev/null 2>&1 || true
}
trap cleanup EXIT
restricted=(--read-only --cap-drop=all --security-opt=no-new-privileges --volume "$name:/var/lib/leafseal")

echo "== packaging: build and run the image with $builder"
"$builder" build --quiet --tag "$image" --file "$artifacts/container/Containerfile" "$artifacts/container"
"$builder" volume create "$name" >/dev/null
"$builder" run --rm "${restricted[@]}" "$image" keys create acme
"$builder" run --rm "${restricted[@]}" "$image" certs init --name localhost
"$builder" run --rm "${restricted[@]}" "$image" certs issue billing --app acme --allow encrypt,decrypt
"$builder" run --detach --name "$name" "${restricted[@]}" "$image" >/dev/null

round_trip() {
  local document='{"card":"4111111111111111"}' connection=(--connect localhost:3443 --app acme) sealed
  sealed=$("$builder" exec --interactive "$name" /usr/bin/leafseal encrypt "${connection[@]}" --select '$.card' <<<"$document")
  [[ $sealed == *ev:* ]]
  [[ $("$builder" exec --interactive "$name" /usr/bin/leafseal decrypt "${connection[@]}" <<<"$sealed") == "$document" ]]
}
until_true 'the engine encrypts and decrypts' round_trip
[[ $("$builder" inspect --format '{{.Config.User}}' "$name") == 65532:65532 ]]
"$builder" stop --time 60 "$name" >/dev/null
[[ $("$builder" inspect --format '{{.State.ExitCode}}' "$name") == 0 ]]
echo '1 passed, 0 failed'
