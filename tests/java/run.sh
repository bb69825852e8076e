#!/usr/bin/env bash
# The Java packages under bindings/java: their tests on each JDK, the JCA provider under software that knows nothing of it, and the READMEs
# (readmes.sh).
#
#   LEAFSEAL=target/checked/leafseal tests/java/run.sh    every package
#   LEAFSEAL=… tests/java/run.sh jca                       some packages
#   SEED=20000 CONVERSATIONS=100000 LEAFSEAL=… tests/java/run.sh client   other conversations, or more
#   CASES=1000000 SECONDS_OF_SOAK=300 LEAFSEAL=… tests/java/run.sh jca    longer
#
# Needs JDK 17 or newer and Maven, and Rust for the native library (PROFILE names cargo's profile, checked by default). Maven downloads what the
# POMs name, at fixed versions. The tests of jca run a second time on JDK 25, if JAVA_HOME_25 or a folder below /usr/lib/jvm has one.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=tests/java
source "$here/../common.sh"
use_leafseal
command -v mvn >/dev/null || die 'install Maven 3.8 or newer'
command -v javac >/dev/null || die 'install JDK 17 or newer'

modules=("$@")
arguments=(--batch-mode --no-transfer-progress --file "$root/bindings/java/pom.xml")
((${#modules[@]} == 0)) || arguments+=(--projects "$(IFS=,; echo "${modules[*]}")" --also-make)
longer=("-Dcases=${CASES:-20000}" "-Dseconds=${SECONDS_OF_SOAK:-3}")

# Maven's output without its steps; everything of a failure.
maven() {
  mvn "$@" | { grep -E '^\[(ERROR|WARNING)|^(\[INFO\] )?(Tests run:|BUILD|soak:)|^[^[]' || true; }
}

echo '== java: build the native library'
"$root/scripts/java-native.sh" "${PROFILE:-checked}"

echo "== java: ${CONVERSATIONS:-10000} conversations between the client and engines"
generate_conversations

echo '== java: mvn verify'
maven "${arguments[@]}" "${longer[@]}" verify

# The second JDK: the native interface and SunJCE, whose semantics the provider has, differ between versions.
jdk_25() {
  local home
  for home in "${JAVA_HOME_25:-}" /usr/lib/jvm/*25*; do
    if [[ -n $home && -x $home/bin/java ]]; then
      printf '%s\n' "$home"
      return
    fi
  done
}

is_wanted() {
  ((${#modules[@]} == 0)) || [[ " ${modules[*]} " == *" $1 "* ]]
}

if is_wanted jca; then
  home=$(jdk_25)
  if [[ -n $home ]]; then
    echo "== java: the provider on $("$home/bin/java" --version | head -1)"
    maven --batch-mode --no-transfer-progress --offline --file "$root/bindings/java/pom.xml" --projects jca "${longer[@]}" \
      "-Djvm=$home/bin/java" surefire:test
  else
    echo '== java: no JDK 25 found; set JAVA_HOME_25 to test the provider on it as well'
  fi
fi

"$here/readmes.sh" "${modules[@]}"
