{{- /* The Deployment and the disruption budget of watcher or worker. Takes a dict of root, role and grace. */ -}}
{{- define "drupdate.process" -}}
{{- $root := .root }}
{{- $values := index .root.Values .role }}
{{- $secrets := include "drupdate.secrets" . | fromYaml }}
{{- $name := printf "%s-%s" (include "drupdate.fullname" .root) .role }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "drupdate.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  replicas: {{ $values.replicas }}
  selector:
    matchLabels:
      {{- include "drupdate.selector" .role | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  template:
    metadata:
      labels:
        {{- include "drupdate.selector" .role | nindent 8 }}
        {{- with $values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        kubectl.kubernetes.io/default-container: drupdate
        # The environment is read once: another one has to make other pods.
        checksum/config: {{ include "drupdate.environment" $root | sha256sum }}
        {{- with $values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      serviceAccountName: {{ include "drupdate.account" . }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      terminationGracePeriodSeconds: {{ .grace }}
      securityContext:
        {{- include "drupdate.podSecurity" $root | nindent 8 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "drupdate.selector" .role | nindent 14 }}
      {{- range $field := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
      {{- with index $values $field }}
      {{ $field }}: {{ toJson . }}
      {{- end }}
      {{- end }}
      containers:
        - name: drupdate
          image: {{ include "drupdate.image" $root | quote }}
          {{- with $root.Values.image.pullPolicy }}
          imagePullPolicy: {{ . }}
          {{- end }}
          args: [{{ .role }}]
          envFrom:
            - configMapRef:
                name: {{ include "drupdate.fullname" $root }}-config
          {{- if eq .role "worker" }}
          {{- if or $values.verifyHTTP $values.webhookSecret }}
          env:
            {{- if $values.verifyHTTP }}
            - name: DRUPDATE_VERIFY_HTTP
              value: "true"
            {{- end }}
            {{- with $values.webhookSecret }}
            - name: DRUPDATE_WEBHOOK_SECRET_FILE
              value: /etc/drupdate/webhook/secret
            - name: DRUPDATE_WEBHOOK_URL
              valueFrom:
                secretKeyRef: {name: {{ . }}, key: url}
            {{- end }}
          {{- end }}
          {{- end }}
          ports:
            - name: metrics
              containerPort: 8080
            - name: health
              containerPort: 8081
          startupProbe:
            httpGet: {path: /healthz, port: health}
            periodSeconds: 2
            failureThreshold: 30
          livenessProbe:
            httpGet: {path: /healthz, port: health}
            periodSeconds: 20
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: /readyz, port: health}
            periodSeconds: 5
            timeoutSeconds: 5
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- include "drupdate.containerSecurity" $root | nindent 12 }}
          {{- with $secrets }}
          volumeMounts:
            {{- range $folder, $_ := . }}
            - name: {{ $folder }}
              mountPath: /etc/drupdate/{{ $folder }}
              readOnly: true
            {{- end }}
          {{- end }}
      {{- with $secrets }}
      volumes:
        {{- range $folder, $secret := . }}
        - name: {{ $folder }}
          secret:
            secretName: {{ $secret }}
        {{- end }}
      {{- end }}
{{- if $values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "drupdate.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "drupdate.selector" .role | nindent 6 }}
{{- end }}
{{- end -}}
