#!/usr/bin/env bash
# The blocks of the Java packages' READMEs, in an empty project that takes the packages from a Maven repository.
#
#   LEAFSEAL=target/checked/leafseal tests/java/readmes.sh            every package
#   LEAFSEAL=… tests/java/readmes.sh jackson kafka-connect            some packages
#
# The packages are packed and installed into a temporary repository, beside links to what the user's has. The project has the lines that the
# README gives for pom.xml and the README's program. Those for Gradle are compared with them. Needs what tests/java/run.sh needs, after
# it has run.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/java
source "$here/../common.sh"
use_leafseal
modules=("$@")
((${#modules[@]} > 0)) || modules=(client jackson kafka-connect jca)

folder=$(mktemp -d "${TMPDIR:-/tmp}/leafseal-readmes.XXXXXX")
engine=
# Invoked by the trap.
# shellcheck disable=SC2317
finish() {
  [[ -z $engine ]] || kill "$engine" 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

fail() {
  echo "tests/java/readmes: $1" >&2
  exit 1
}

repository=$folder/repository
maven() {
  mvn --batch-mode --no-transfer-progress --quiet "-Dmaven.repo.local=$repository" "$@"
}

# block FILE HEAD: the content of the first block whose first line is ```HEAD.
block() {
  awk -v head="\`\`\`$2" '$0 == head {inside = 1; next} inside && $0 == "```" {exit} inside' "$1"
}

echo '== java: install the packed packages into a temporary repository'
known=$HOME/.m2/repository
mkdir -p "$repository"
if [[ -d $known ]]; then cp -as "$known/." "$repository/"; fi
rm -rf "$repository/io/leafseal"
maven --file "$root/bindings/java/pom.xml" --projects "$(IFS=,; echo "${modules[*]}")" --also-make -DskipTests install

# Prints {"address":"HOST:PORT",…}.
"$LEAFSEAL" --dir "$folder/.leafseal" dev --app app_dev --port 0 --no-relay --json \
  --set operator.address=127.0.0.1:0 --set api.address=127.0.0.1:0 \
  >"$folder/engine.json" 2>"$folder/engine.log" &
engine=$!
for ((tries = 0; tries < 600; tries++)); do
  [[ ! -s $folder/engine.json ]] || break
  sleep 0.1
done
address=$(sed -n 's/.*"address":"\([^"]*\)".*/\1/p' "$folder/engine.json")
[[ -n $address ]] || fail "no engine: $(<"$folder/engine.log")"

# project MODULE: an empty project with the lines of the README.
project() {
  local readme=$root/bindings/java/$1/README.md dependencies coordinates
  dependencies=$(block "$readme" xml)
  [[ -n $dependencies ]] || fail "$readme has no lines for pom.xml"
  coordinates=$(tr -d '\n ' <<<"$dependencies" |
    sed -E 's|.*<groupId>(.*)</groupId><artifactId>(.*)</artifactId><version>([^<]*)</version>.*|\1:\2:\3|')
  grep -q "\"$coordinates[\":]" <<<"$(block "$readme" kotlin)" ||
    fail "the lines for Gradle of $readme name another package than $coordinates"
  mkdir -p "$folder/$1/src/main/java"
  ln -sfn "$folder/.leafseal" "$folder/$1/.leafseal"
  cat >"$folder/$1/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId>
  <artifactId>example</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
$dependencies
  </dependencies>
  <build>
    <pluginManagement>
      <plugins>
        <plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version></plugin>
        <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.13.0</version></plugin>
        <plugin><artifactId>maven-dependency-plugin</artifactId><version>3.8.1</version></plugin>
      </plugins>
    </pluginManagement>
  </build>
</project>
POM
}

# run MODULE CLASS EXPECTED: compiles and runs the README's program; its output matches the regular expression.
run() {
  local output
  echo "== java: the README of $1"
  project "$1"
  block "$root/bindings/java/$1/README.md" "java $2.java" | sed "s/127\.0\.0\.1:3443/$address/" >"$folder/$1/src/main/java/$2.java"
  [[ -s $folder/$1/src/main/java/$2.java ]] || fail "the README of $1 has no program $2.java"
  maven --file "$folder/$1/pom.xml" compile dependency:build-classpath "-Dmdep.outputFile=$folder/$1/classpath"
  output=$(cd "$folder/$1" && java -cp "target/classes:$(<classpath)" "$2" 2>&1) || fail "$2 of $1 failed: $output"
  [[ $output =~ ^$3$ ]] || fail "$2 of $1 printed: $output"
}

for module in "${modules[@]}"; do
  case $module in
  client) run client QuickStart $'4111111111111111\n.*12\\.50}\n4111111111111111' ;;
  jackson) run jackson Payments $'\\{"number":"ev:[^"]*:\\$","amount":12\\.5\\}\n4111111111111111' ;;
  jca) run jca Seal $'Leafseal: 25 bytes\n.*isNative=true.*' ;;
  kafka-connect)
    echo "== java: the README of kafka-connect"
    project kafka-connect
    command=$(block "$root/bindings/java/kafka-connect/README.md" sh)
    [[ $command == 'mvn '* ]] || fail 'the README of kafka-connect has no command that gathers its jars'
    read -ra arguments <<<"${command#mvn }"
    maven --file "$folder/kafka-connect/pom.xml" "${arguments[@]}"
    jars=$(cd "$folder/kafka-connect/plugins/leafseal" && printf '%s\n' *.jar | sed -E 's/-[0-9.]+\.jar//' | tr '\n' ' ')
    [[ $jars == 'leafseal-client leafseal-kafka-connect msgpack-core ' ]] || fail "the plugin consists of $jars"
    ;;
  *) fail "$module is no package of bindings/java" ;;
  esac
done
