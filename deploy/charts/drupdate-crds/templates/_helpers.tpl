{{- define "drupdate-crds.labels" -}}
app.kubernetes.io/name: drupdate
app.kubernetes.io/part-of: drupdate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}
