#!/bin/sh
# Creates Temporal's namespace and the search attributes of runs. Running it again changes nothing.
# TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE come from the environment.
set -eu

# patiently COMMAND... tries again for two minutes: the server needs a while to start, and to see a new namespace.
patiently() {
  attempt=0
  until "$@" >/dev/null 2>&1; do
    attempt=$((attempt + 1))
    if [ "$attempt" -ge 60 ]; then
      echo "Temporal at $TEMPORAL_ADDRESS does not get ready: this failed for two minutes: $*" >&2
      exit 1
    fi
    sleep 2
  done
}

patiently temporal operator cluster health

# Runs that have ended can be read for 30 days.
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
  temporal operator namespace create --retention 720h --namespace "$TEMPORAL_NAMESPACE"

patiently temporal operator search-attribute list
for name in DrupalSite DrupalNamespace DrupalTarget DrupalPhase; do
  temporal operator search-attribute list | grep -q "$name" ||
    temporal operator search-attribute create --name "$name" --type Keyword
done
