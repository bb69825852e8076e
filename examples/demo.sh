#!/usr/bin/env bash
# Shows the main job on real input: a document goes in, chosen fields come out as envelopes, and all of it comes back byte for byte;
# first in process, then through an engine over MessagePack-RPC and mTLS. Ends with an error at the first difference.
#
#   LEAFSEAL   the program; default target/demo/leafseal
#   DIR         where keys and certificates go; default a fresh folder with ONCE, else .leafseal
#   ONCE        anything but empty: end after the demonstration instead of keeping the engine running
set -euo pipefail
cd "$(dirname "$0")/.."

PROGRAM=${LEAFSEAL:-target/demo/leafseal}
ONCE=${ONCE:-}
FIELDS=60000
if [[ ! -x $PROGRAM ]]; then
  echo "demo: no program at $PROGRAM: build it with 'make run', or name it in LEAFSEAL" >&2
  exit 2
fi
# Variables that are set for another engine must not lead the demonstration to it.
unset "${!LEAFSEAL_@}" LEAFSEAL_DIR LEAFSEAL_CONFIG LEAFSEAL_ROOT_KEY

scratch=$(mktemp -d)
engine=
trap 'if [[ -n $engine ]]; then kill "$engine" 2> /dev/null || true; wait "$engine" 2> /dev/null || true; fi; rm -rf "$scratch"' EXIT
folder=${DIR:-$([[ -n $ONCE ]] && echo "$scratch/leafseal" || echo .leafseal)}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }

# Prints a command, then runs it.
show() {
  printf '  $ leafseal'
  # Without quotation marks that nothing needs, and without the scratch folder.
  printf ' %s' "${@@Q}" | sed "s|$scratch/||g; s/'\([A-Za-z0-9_.\/:-]*\)'/\1/g"
  printf '\n'
  "$PROGRAM" --dir "$folder" "$@"
}

same() {
  if ! cmp "$1" "$2"; then
    echo "demo: $2 is not what went in" >&2
    exit 1
  fi
  echo "  $3"
}

# Milliseconds that a command takes.
milliseconds() {
  local start=$EPOCHREALTIME
  "$PROGRAM" --dir "$folder" "$@"
  local end=$EPOCHREALTIME
  echo $(((${end/[.,]/} - ${start/[.,]/}) / 1000))
}

select=(--select '$.card.number' --select '$.card.cvc' --select '$..email' --select '$.amount.value')

say "1. A document, and the fields to protect"
cat examples/payment.json

say "2. In process: keys below $folder"
"$PROGRAM" --dir "$folder" keys list --json 2> /dev/null | grep -q '"app":"app_dev"' || show keys create app_dev
show encrypt --app app_dev "${select[@]}" examples/payment.json -o "$scratch/sealed.json"
diff --unchanged-line-format= --old-line-format= --new-line-format='  %L' examples/payment.json "$scratch/sealed.json" || true
show decrypt --app app_dev "$scratch/sealed.json" -o "$scratch/opened.json"
same examples/payment.json "$scratch/opened.json" "It came back byte for byte."
# With a symmetric key, for values that engines alone seal, bound to their row.
symmetric=(--scheme symmetric --context payment/7)
show encrypt --app app_dev "${symmetric[@]}" "${select[@]}" examples/payment.json -o "$scratch/bound.json"
show decrypt --app app_dev --context payment/7 "$scratch/bound.json" -o "$scratch/opened.json"
same examples/payment.json "$scratch/opened.json" "With a symmetric key, bound to its row: byte for byte."
show decrypt --app app_dev --context payment/8 --on-failure leave "$scratch/bound.json" -o "$scratch/opened.json"
same "$scratch/bound.json" "$scratch/opened.json" "In another row it does not open."

say "3. Through an engine, over MessagePack-RPC and mTLS"
"$PROGRAM" --dir "$folder" dev --json --port "$([[ -n $ONCE ]] && echo 0 || echo "${PORT:-3443}")" > "$scratch/ready" &
engine=$!
for _ in {1..200}; do
  [[ -s $scratch/ready ]] && break
  kill -0 "$engine" 2> /dev/null || { engine=; exit 3; }
  sleep 0.05
done
address=$(sed 's/.*"address":"\([^"]*\)".*/\1/' "$scratch/ready")
connect=(--connect "$address" --client dev)
show encrypt --app app_dev "${connect[@]}" "${select[@]}" examples/payment.json -o "$scratch/remote.json"
# Envelopes of the engine open in process, and the reverse.
show decrypt --app app_dev "$scratch/remote.json" -o "$scratch/opened.json"
same examples/payment.json "$scratch/opened.json" "Sealed by the engine, opened in process: byte for byte."
show decrypt --app app_dev "${connect[@]}" "$scratch/sealed.json" -o "$scratch/opened.json"
same examples/payment.json "$scratch/opened.json" "Sealed in process, opened by the engine: byte for byte."

say "4. A document of $FIELDS fields, every one encrypted"
awk -v fields="$FIELDS" 'BEGIN {
  printf "["
  for (i = 0; i < fields / 4; i++)
    printf "%s\n  {\"id\": %d, \"name\": \"Customer %d\", \"email\": \"c%d@example.com\", \"balance\": %d.50}", i ? "," : "", i, i, i, i % 1000
  print "\n]"
}' > "$scratch/big.json"
for scheme in public-key symmetric; do
  for way in "in process" "over mTLS"; do
    through=(--app app_dev)
    [[ $way == "in process" ]] || through+=("${connect[@]}")
    sealing=$(milliseconds encrypt "${through[@]}" --scheme "$scheme" "$scratch/big.json" -o "$scratch/sealed.json")
    opening=$(milliseconds decrypt "${through[@]}" "$scratch/sealed.json" -o "$scratch/opened.json")
    same "$scratch/big.json" "$scratch/opened.json" \
      "$(printf '%-10s  %-10s  encrypt %5d ms  decrypt %5d ms  byte for byte' "$scheme" "$way" "$sealing" "$opening")"
  done
done

if [[ -n $ONCE ]]; then
  say "Done."
  exit 0
fi

trap 'exit 0' INT TERM
say "The engine stays at $address; end it with Ctrl-C. In another terminal:"
cat << END
  $PROGRAM --dir $folder encrypt --app app_dev ${connect[*]} --select '\$.card.number' examples/payment.json
  $PROGRAM --dir $folder encrypt --app app_dev --select '\$.card' examples/customers.jsonl | head -3
  $PROGRAM --dir $folder keys rotate app_dev
  $PROGRAM --dir $folder info ${connect[*]}
  $PROGRAM --help
END
wait "$engine"
