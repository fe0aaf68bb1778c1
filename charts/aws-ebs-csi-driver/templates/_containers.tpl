{{/* Environment of proxies, as a YAML list; empty without a proxy. */}}
{{- define "ebs.proxyEnv" -}}
{{- with .Values.proxy -}}
{{- if .http_proxy }}
- name: HTTP_PROXY
  value: {{ .http_proxy | quote }}
- name: HTTPS_PROXY
  value: {{ .http_proxy | quote }}
- name: NO_PROXY
  value: {{ default "" .no_proxy | quote }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ebs.otelEnv" -}}
{{- with .otelServiceName }}
- name: OTEL_SERVICE_NAME
  value: {{ . | quote }}
{{- end -}}
{{- with .otelExporterEndpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end -}}
{{- end -}}

{{- define "ebs.fipsEnv" -}}
{{- if .Values.fips }}
- name: AWS_USE_FIPS_ENDPOINT
  value: "true"
- name: GODEBUG
  value: fips140=on
{{- end -}}
{{- end -}}

{{- define "ebs.nodeNameEnv" }}
- name: CSI_NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end -}}

{{/* Credentials, endpoints and region for a container that calls AWS. */}}
{{- define "ebs.awsEnv" -}}
{{- with .Values.awsAccessSecret }}
{{- if and .name .keyId .accessKey }}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef:
      name: {{ .name }}
      key: {{ .keyId }}
      optional: true
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .name }}
      key: {{ .accessKey }}
      optional: true
{{- end }}
{{- end }}
- name: AWS_EC2_ENDPOINT
  valueFrom:
    configMapKeyRef:
      name: aws-meta
      key: endpoint
      optional: true
- name: AWS_SAGEMAKER_ENDPOINT
  valueFrom:
    configMapKeyRef:
      name: aws-meta
      key: sagemaker_endpoint
      optional: true
{{- with .Values.controller.region }}
- name: AWS_REGION
  value: {{ . | quote }}
{{- end -}}
{{- end -}}

{{/* A probe of the driver by its liveness-probe container: dict initial, timeout, period, failures. */}}
{{- define "ebs.healthProbe" -}}
httpGet:
  path: /healthz
  port: healthz
{{- with .initial }}
initialDelaySeconds: {{ . }}
{{- end }}
timeoutSeconds: {{ .timeout }}
periodSeconds: {{ .period }}
failureThreshold: {{ .failures }}
{{- end -}}

{{/* One argument unless the user's own arguments name it: dict flag, value, given (their text). */}}
{{- define "ebs.unlessGiven" -}}
{{- if not (contains (printf "-%s" .flag) .given) }}
- --{{ .flag }}={{ .value }}
{{- end -}}
{{- end -}}

{{/* Leader election of a sidecar: dict name, sidecar. */}}
{{- define "ebs.leaderElection" -}}
{{- $election := .sidecar.leaderElection -}}
{{- if not (kindIs "map" $election) -}}
{{- fail (printf "sidecars.%s.leaderElection must be a map with `enabled: true` or `enabled: false`" .name) -}}
{{- end -}}
{{- if not (kindIs "bool" $election.enabled) -}}
{{- fail (printf "sidecars.%s.leaderElection.enabled must be true or false" .name) -}}
{{- end }}
- --leader-election={{ $election.enabled }}
{{- if $election.enabled -}}
{{- with $election.leaseDuration }}
- --leader-election-lease-duration={{ . }}
{{- end -}}
{{- with $election.renewDeadline }}
- --leader-election-renew-deadline={{ . }}
{{- end -}}
{{- with $election.retryPeriod }}
- --leader-election-retry-period={{ . }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Verbosity of a sidecar: dict root, sidecar. */}}
{{- define "ebs.verbosity" -}}
--v={{ ternary 7 (.sidecar.logLevel | int) .root.Values.debugLogs }}
{{- end -}}

{{/* The fields of the controller's sidecars after their arguments: dict root, sidecar, name, env (YAML list), mountPath, metricsPort, metricsName. */}}
{{- define "ebs.controllerSidecar" -}}
{{- $resources := default .root.Values.controller.resources .sidecar.resources -}}
{{- $env := concat (include "ebs.list" (default "" .env) | fromYamlArray) (include "ebs.list" (include "ebs.proxyEnv" .root) | fromYamlArray) (default list .sidecar.env) -}}
{{- with $env }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.controller.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and .root.Values.controller.enableMetrics .metricsPort }}
ports:
  - name: {{ .metricsName }}
    containerPort: {{ .metricsPort }}
    protocol: TCP
{{- end }}
{{- $mounts := concat (ternary (list (dict "name" "socket-dir" "mountPath" (default "" .mountPath))) list (not (empty .mountPath))) (default list .sidecar.volumeMounts) -}}
{{- with $mounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .sidecar.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}

{{/* A YAML list from text that may be empty. */}}
{{- define "ebs.list" -}}
{{- if empty (trim .) -}}
[]
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}
