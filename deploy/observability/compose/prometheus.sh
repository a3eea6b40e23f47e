#!/bin/sh
# Starts Prometheus with drupdate's alerts: they are kept as the resource of an operator, whose spec is a rule file.
set -eu
sed -n '/^spec:$/,$ s/^  //p' /drupdate/prometheusrule.yaml >/prometheus/drupdate.rules.yaml
exec /bin/prometheus --config.file=/drupdate/compose/prometheus.yaml --storage.tsdb.path=/prometheus \
  --storage.tsdb.retention.time=7d --web.listen-address=127.0.0.1:9090
