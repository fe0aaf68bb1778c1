{{- define "aws-ebs-csi-driver.otelEnv" -}}
{{- with .otelServiceName }}
- name: OTEL_SERVICE_NAME
  value: {{ . | quote }}
{{- end -}}
{{- with .otelExporterEndpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end -}}
{{- end -}}

{{- define "aws-ebs-csi-driver.nodeNameEnv" }}
- name: CSI_NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end -}}

{{/* Credentials, endpoints and region for a container that calls AWS. */}}
{{- define "aws-ebs-csi-driver.awsEnv" -}}
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

{{/* A probe of the driver by its port `healthz`: dict initial, timeout, period, failures. */}}
{{- define "aws-ebs-csi-driver.healthProbe" -}}
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

{{/* "true" if the values set anything of sidecars.livenessProbe. Its container then answers the kubelet's probes in place of the driver. */}}
{{- define "aws-ebs-csi-driver.hasLivenessProbe" -}}
{{- $sidecar := .Values.sidecars.livenessProbe -}}
{{- $image := default dict $sidecar.image -}}
{{- if or $image.repository $image.tag $image.pullPolicy $sidecar.additionalArgs $sidecar.resources $sidecar.securityContext -}}
true
{{- end -}}
{{- end -}}

{{/* The driver's argument to answer the kubelet's probes itself. */}}
{{- define "aws-ebs-csi-driver.healthArgument" -}}
{{- if not (include "aws-ebs-csi-driver.hasLivenessProbe" .) }}
- --health-endpoint=:9808
{{- end -}}
{{- end -}}

{{/* image and imagePullPolicy of the livenessprobe container. */}}
{{- define "aws-ebs-csi-driver.livenessProbeImage" -}}
{{- $image := dict "repository" "public.ecr.aws/csi-components/livenessprobe" "tag" "v2.19.0-eksbuild.5" "pullPolicy" "IfNotPresent" -}}
{{- range $key, $value := .Values.sidecars.livenessProbe.image -}}
{{- if $value -}}{{- $_ := set $image $key $value -}}{{- end -}}
{{- end -}}
{{- include "aws-ebs-csi-driver.sidecarImage" (dict "root" . "image" $image) -}}
{{- end -}}

{{/* The livenessprobe container of a Linux pod: dict root, volume, args (YAML list), envFrom, metrics. */}}
{{- define "aws-ebs-csi-driver.livenessProbe" -}}
{{- $sidecar := .root.Values.sidecars.livenessProbe -}}
- name: liveness-probe
  {{- include "aws-ebs-csi-driver.livenessProbeImage" .root | nindent 2 }}
  args:
    - --csi-address=/csi/csi.sock
    {{- .args | nindent 4 }}
    {{- range $sidecar.additionalArgs }}
    - {{ . | quote }}
    {{- end }}
  {{- with .envFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - name: {{ .volume }}
      mountPath: /csi
  {{- if .metrics }}
  ports:
    - name: metrics-lp
      containerPort: 3305
      protocol: TCP
  {{- end }}
  resources:
    {{- toYaml (default (dict "requests" (dict "cpu" "10m" "memory" "32Mi") "limits" (dict "memory" "32Mi")) $sidecar.resources) | nindent 4 }}
  securityContext:
    {{- toYaml (mergeOverwrite (dict "readOnlyRootFilesystem" true "allowPrivilegeEscalation" false) (deepCopy (default dict $sidecar.securityContext))) | nindent 4 }}
  terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}

{{/* One argument unless the user's own arguments name it: dict flag, value, given (their text). */}}
{{- define "aws-ebs-csi-driver.unlessGiven" -}}
{{- if not (contains (printf "-%s" .flag) .given) }}
- --{{ .flag }}={{ .value }}
{{- end -}}
{{- end -}}

{{/* Leader election of a sidecar: dict sidecar. */}}
{{- define "aws-ebs-csi-driver.leaderElection" -}}
{{- $election := .sidecar.leaderElection }}
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
{{- define "aws-ebs-csi-driver.verbosity" -}}
--v={{ ternary 7 (.sidecar.logLevel | int) .root.Values.debugLogs }}
{{- end -}}

{{/* The fields of the controller's sidecars after their arguments: dict root, sidecar, name, env (YAML list), mountPath, metricsPort, metricsName. */}}
{{- define "aws-ebs-csi-driver.controllerSidecar" -}}
{{- $resources := default .root.Values.controller.resources .sidecar.resources -}}
{{- $env := concat (include "aws-ebs-csi-driver.list" (default "" .env) | fromYamlArray) (include "aws-ebs-csi-driver.list" (include "aws-ebs-csi-driver.http-proxy" .root) | fromYamlArray) (default list .sidecar.env) -}}
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
{{- define "aws-ebs-csi-driver.list" -}}
{{- if empty (trim .) -}}
[]
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}
