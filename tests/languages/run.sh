#!/usr/bin/env bash
# What one language's client encrypts, each value in its own context, every other one decrypts, and none in another row.
#
#   LEAFSEAL=target/checked/leafseal tests/languages/run.sh [pytest arguments]
#
# Needs what tests/{python,node,java,go}/run.sh have built. Without Go 1.25 its client is left out, by name.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/languages
source "$here/../common.sh"
use_leafseal
need_python
need_node
install_python "$root/target/interop/venv" "$here/../interop/requirements.txt"

folder=$(mktemp -d "${TMPDIR:-/tmp}/leafseal-languages.XXXXXX")
trap 'rm -rf "$folder"' EXIT

python=$root/target/python/venv/bin/python
[[ -x $python ]] || die 'run tests/python/run.sh first'
[[ -f $root/bindings/node/client/dist/index.mjs && -f $root/bindings/node/wire/wire.node ]] || die 'run tests/node/run.sh wire client first'
classes=$root/bindings/java/client/target/classes
[[ -d $classes ]] || die 'run tests/java/run.sh client first'
msgpack=$(find "$HOME/.m2/repository/org/msgpack/msgpack-core" -name 'msgpack-core-*.jar' 2>/dev/null | sort | tail -1)
[[ -n $msgpack ]] || die 'run tests/java/run.sh client first'
javac -d "$folder" -cp "$classes:$msgpack" "$here/Contexts.java"

LANGUAGES=$(printf '%s\n' \
  "python $python $here/contexts.py" \
  "node node $here/contexts.mjs" \
  "java java -cp $folder:$classes:$msgpack Contexts")
version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)
if [[ $version =~ ^go1\.([0-9]+) && ${BASH_REMATCH[1]} -ge 25 ]]; then
  (cd "$root/clients/go" && gofmt -l "$here" | { ! grep .; } && go build -o "$folder/contexts" "$here/contexts.go")
  LANGUAGES+=$'\n'"go $folder/contexts"
else
  echo "== languages: without Go, whose client needs 1.25 or newer; found ${version:-none}"
fi
export LANGUAGES

echo '== languages: pytest'
run_pytest --rootdir "$here" "$here" "$@"
