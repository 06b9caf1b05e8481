#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs sbt, whether or not one is installed: ./sbt core/test
# The launcher comes from Maven's central repository by its coordinates. Every other download is
# sbt's own, from the repositories listed in project/repositories.
#
#   JAVA_HOME       the Java to use (17 or later); else the one on the path
#   SBT_LAUNCHER    a launcher jar to use instead of fetching one
#   SBT_HEAP        sbt's own heap, 2g unless told (test JVMs have their own, see project/Jvm.scala)
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$root"

java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
java_version="$("$java" -version 2>&1 |
  sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1 || true)"
if [ "${java_version:-0}" -lt 17 ]; then
  echo "Java 17 or later is needed (found: ${java_version:-none}): install one (apt-get install" \
    "openjdk-17-jdk-headless, brew install openjdk@17) or set JAVA_HOME." >&2
  exit 1
fi

version="$(sed -n 's/^sbt.version=//p' project/build.properties)"
mkdir -p .sbt-launch
launcher="${SBT_LAUNCHER:-.sbt-launch/sbt-launch-$version.jar}"
if [ ! -f "$launcher" ]; then
  if ! command -v mvn >/dev/null; then
    echo "Maven is needed, once, to fetch sbt's launcher: install it (apt-get install maven, brew" \
      "install maven) or name a launcher jar in SBT_LAUNCHER." >&2
    exit 1
  fi
  echo "Fetching sbt $version's launcher with Maven." >&2
  # Into a folder of our own first: two that start at once must not read each other's half.
  partial="$(mktemp -d .sbt-launch/partial.XXXXXX)"
  trap 'rm -rf "$partial"' EXIT
  if ! mvn --quiet --batch-mode dependency:copy -Dartifact="org.scala-sbt:sbt-launch:$version" \
    -DoutputDirectory="$root/$partial" >"$partial/log" 2>&1; then
    cat "$partial/log" >&2
    echo "Maven could not fetch org.scala-sbt:sbt-launch:$version; what it said stands above." >&2
    exit 1
  fi
  mv "$partial/sbt-launch-$version.jar" "$launcher"
  rm -rf "$partial"
  trap - EXIT
fi

colour=auto
[ -t 1 ] || colour=false
# In UTC: the entries of a jar have a time that depends on the zone, and a jar is the same for all.
run=("$java" -Xmx"${SBT_HEAP:-2g}" -Xss4m -Dfile.encoding=UTF-8 -Duser.timezone=UTC
  -Dsbt.override.build.repos=true -Dsbt.repository.config=project/repositories
  -Dsbt.server.autostart=false -Dsbt.supershell=false -Dsbt.color="$colour"
  -jar "$launcher" "$@")

# Two sbt in one folder overwrite each other's classes. The second waits for the first, if the
# system has flock.
if command -v flock >/dev/null; then
  lock=.sbt-launch/lock
  flock --nonblock "$lock" true ||
    echo "Another sbt runs in this folder; waiting for it to end." >&2
  exec flock --close "$lock" "${run[@]}"
fi
exec "${run[@]}"
