{{- define "drupdate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "drupdate" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-drupdate" (.Release.Name | trunc 31 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "drupdate.labels" -}}
app.kubernetes.io/name: drupdate
app.kubernetes.io/part-of: drupdate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* Not the release's name: a selector cannot be changed, and so an installation by kustomize can be taken over. */ -}}
{{- define "drupdate.selector" -}}
app.kubernetes.io/name: drupdate
app.kubernetes.io/component: {{ . }}
{{- end -}}

{{- define "drupdate.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* ROLE: the account of "watcher" or "worker". Takes a dict of root and role. */ -}}
{{- define "drupdate.account" -}}
{{- (index .root.Values .role).serviceAccount.name | default (printf "%s-%s" (include "drupdate.fullname" .root) .role) -}}
{{- end -}}

{{- /* The Secrets that are mounted as files, by the name of their folder. Takes a dict of root and role. */ -}}
{{- define "drupdate.secrets" -}}
{{- with .root.Values }}
{{- if .temporal.tls.caSecret }}
temporal-ca: {{ .temporal.tls.caSecret }}
{{- end }}
{{- if .temporal.tls.clientSecret }}
temporal-client: {{ .temporal.tls.clientSecret }}
{{- end }}
{{- if .temporal.apiKeySecret }}
temporal-api-key: {{ .temporal.apiKeySecret }}
{{- end }}
{{- if .codec.secret }}
codec-keys: {{ .codec.secret }}
{{- end }}
{{- if and (eq $.role "worker") .worker.webhookSecret }}
webhook: {{ .worker.webhookSecret }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The environment of both processes; every value is a string. */ -}}
{{- define "drupdate.environment" -}}
{{- $env := dict
  "TEMPORAL_ADDRESS" .Values.temporal.address
  "TEMPORAL_NAMESPACE" .Values.temporal.namespace
  "DRUPDATE_TASK_QUEUE" .Values.temporal.taskQueue
  "DRUPDATE_LOG_LEVEL" .Values.log.level
  "DRUPDATE_LOG_FORMAT" .Values.log.format
  "DRUPDATE_LEADER_ELECT" "true" -}}
{{- with .Values.temporal.tls -}}
{{- if or .enabled .caSecret .clientSecret $.Values.temporal.apiKeySecret -}}
{{- $_ := set $env "TEMPORAL_TLS" "true" -}}
{{- end -}}
{{- if .serverName -}}
{{- $_ := set $env "TEMPORAL_TLS_SERVER_NAME" .serverName -}}
{{- end -}}
{{- if .caSecret -}}
{{- $_ := set $env "TEMPORAL_TLS_SERVER_CA_CERT_PATH" "/etc/drupdate/temporal-ca/ca.crt" -}}
{{- end -}}
{{- if .clientSecret -}}
{{- $_ := set $env "TEMPORAL_TLS_CLIENT_CERT_PATH" "/etc/drupdate/temporal-client/tls.crt" -}}
{{- $_ := set $env "TEMPORAL_TLS_CLIENT_KEY_PATH" "/etc/drupdate/temporal-client/tls.key" -}}
{{- end -}}
{{- end -}}
{{- if .Values.temporal.apiKeySecret -}}
{{- $_ := set $env "DRUPDATE_TEMPORAL_API_KEY_FILE" (printf "/etc/drupdate/temporal-api-key/%s" .Values.temporal.apiKeySecretKey) -}}
{{- end -}}
{{- if .Values.codec.secret -}}
{{- $_ := set $env "DRUPDATE_CODEC_KEYS" "/etc/drupdate/codec-keys" -}}
{{- end -}}
{{- if .Values.watchNamespaces -}}
{{- $_ := set $env "DRUPDATE_WATCH_NAMESPACES" (join "," .Values.watchNamespaces) -}}
{{- end -}}
{{- if .Values.temporal.uiURL -}}
{{- $_ := set $env "DRUPDATE_TEMPORAL_UI_URL" .Values.temporal.uiURL -}}
{{- end -}}
{{- if .Values.otlpEndpoint -}}
{{- $_ := set $env "DRUPDATE_OTLP_ENDPOINT" .Values.otlpEndpoint -}}
{{- end -}}
{{- toYaml (merge (deepCopy .Values.config) $env) -}}
{{- end -}}

{{- define "drupdate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "drupdate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}
