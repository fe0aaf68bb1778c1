{{/* The node values of a DaemonSet of additionalDaemonSets: `node`, overridden by the given values. dict root, over. */}}
{{- define "aws-ebs-csi-driver.nodeValues" -}}
{{- include "aws-ebs-csi-driver.override" (dict "over" (default dict .over) "under" .root.Values.node) -}}
{{- end -}}

{{/* "true" if controller and nodes run under one service account: dict root, values. */}}
{{- define "aws-ebs-csi-driver.oneAccount" -}}
{{- $sameName := eq .values.controller.serviceAccount.name .values.node.serviceAccount.name -}}
{{- if and $sameName (not .values.nodeComponentOnly) (eq .root.Release.Namespace (include "aws-ebs-csi-driver.nodeNamespace" (dict "root" .root "node" .values.node))) -}}
true
{{- end -}}
{{- end -}}

{{/* Why the node account is not restricted to its own Node; empty if it is. A policy for an account that other pods use would restrict them too. */}}
{{- define "aws-ebs-csi-driver.unrestricted" -}}
{{- $account := .Values.node.serviceAccount -}}
{{- $restrict := .Values.node.restrictToOwnNode -}}
{{- if $account.disableMutation -}}
the account cannot change Nodes
{{- else if and (kindIs "bool" $restrict) (not $restrict) -}}
node.restrictToOwnNode is false
{{- else if include "aws-ebs-csi-driver.oneAccount" (dict "root" . "values" .Values) -}}
the controller has the same service account
{{- else if and (not $account.create) (not $restrict) -}}
node.serviceAccount.create is false, so other pods may have the same service account
{{- end -}}
{{- end -}}

{{/* "true" if Windows nodes get a DaemonSet: unless enableWindows is false. */}}
{{- define "aws-ebs-csi-driver.hasWindows" -}}
{{- if not (and (kindIs "bool" .enableWindows) (not .enableWindows)) -}}
true
{{- end -}}
{{- end -}}

{{/* Arguments of the driver that Linux and Windows have in common, behind the endpoint: dict root, node. */}}
{{- define "aws-ebs-csi-driver.nodeArguments" -}}
{{- $node := .node -}}
{{- if not (kindIs "invalid" $node.reservedVolumeAttachments) }}
- --reserved-volume-attachments={{ $node.reservedVolumeAttachments }}
{{- end }}
{{- with $node.volumeAttachLimit }}
- --volume-attach-limit={{ . }}
{{- end }}
{{- with $node.metadataSources }}
- --metadata-sources={{ . }}
{{- end }}
{{- if $node.legacyXFS }}
- --legacy-xfs=true
{{- end }}
{{- with $node.loggingFormat }}
- --logging-format={{ . }}
{{- end }}
- --v={{ ternary 7 ($node.logLevel | int) .root.Values.debugLogs }}
{{- if $node.otelTracing }}
- --enable-otel-tracing=true
{{- end }}
{{- include "aws-ebs-csi-driver.healthArgument" .root }}
{{- end -}}

{{/* Environment of the driver behind CSI_ENDPOINT: dict root, node. */}}
{{- define "aws-ebs-csi-driver.nodeEnv" -}}
{{- include "aws-ebs-csi-driver.nodeNameEnv" .root }}
{{- include "aws-ebs-csi-driver.http-proxy" .root }}
{{- with .node.otelTracing }}{{ include "aws-ebs-csi-driver.otelEnv" . }}{{ end }}
{{- if .node.serviceAccount.disableMutation }}
- name: DISABLE_TAINT_WATCHER
  value: "true"
{{- end }}
{{- with .node.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A pod's fields that both systems have, up to its containers: dict root, node, os. */}}
{{- define "aws-ebs-csi-driver.nodePod" -}}
{{- $node := .node -}}
{{- with $node.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
nodeSelector:
  {{- toYaml (mergeOverwrite (dict "kubernetes.io/os" .os) (deepCopy (default dict $node.nodeSelector))) | nindent 2 }}
serviceAccountName: {{ $node.serviceAccount.name }}
priorityClassName: {{ default "system-node-critical" $node.priorityClassName }}
terminationGracePeriodSeconds: {{ $node.terminationGracePeriodSeconds }}
tolerations:
  {{- if $node.tolerateAllTaints }}
  - operator: Exists
  {{- else }}
  {{- with $node.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- include "aws-ebs-csi-driver.daemonset-tolerations" .root | nindent 2 }}
  {{- end }}
{{- with $node.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* DaemonSet and pod template up to the pod's fields: dict root, node, app, name, annotations. */}}
{{- define "aws-ebs-csi-driver.daemonSetHead" -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name }}
  namespace: {{ include "aws-ebs-csi-driver.nodeNamespace" . }}
  labels:
    {{- include "aws-ebs-csi-driver.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  revisionHistoryLimit: {{ .node.revisionHistoryLimit }}
  selector:
    matchLabels:
      {{- include "aws-ebs-csi-driver.selector" . | nindent 6 }}
  updateStrategy:
    {{- toYaml .node.updateStrategy | nindent 4 }}
  template:
    metadata:
      labels:
        {{- include "aws-ebs-csi-driver.podLabels" (dict "root" .root "app" .app "podLabels" .node.podLabels) | nindent 8 }}
      {{- with .node.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{/* Ports and probes of the driver on a node: dict metrics. */}}
{{- define "aws-ebs-csi-driver.nodeHealth" -}}
ports:
  - name: healthz
    containerPort: 9808
    protocol: TCP
  {{- if .metrics }}
  - name: metrics
    containerPort: 3302
    protocol: TCP
  {{- end }}
livenessProbe:
  {{- include "aws-ebs-csi-driver.healthProbe" (dict "initial" 10 "timeout" 3 "period" 10 "failures" 5) | nindent 2 }}
readinessProbe:
  {{- include "aws-ebs-csi-driver.healthProbe" (dict "timeout" 3 "period" 5 "failures" 3) | nindent 2 }}
{{- end -}}

{{/* The registrar's own probe, without the default's httpGet where the values name another handler. */}}
{{- define "aws-ebs-csi-driver.registrarProbe" -}}
{{- $probe := deepCopy . -}}
{{- if or $probe.exec $probe.tcpSocket $probe.grpc -}}
{{- $_ := unset $probe "httpGet" -}}
{{- end -}}
livenessProbe:
  {{- toYaml $probe | nindent 2 }}
{{- end -}}
