{{/* The node values of a DaemonSet of additionalDaemonSets: `node`, overridden by the given values. dict root, over. */}}
{{- define "ebs.nodeValues" -}}
{{- include "ebs.override" (dict "over" (default dict .over) "under" .root.Values.node) -}}
{{- end -}}

{{- define "ebs.checkNode" -}}
{{- $node := .node -}}
{{- if and $node.volumeAttachLimit (not (kindIs "invalid" $node.reservedVolumeAttachments)) (ge (int $node.reservedVolumeAttachments) 0) -}}
{{- fail "node.volumeAttachLimit and node.reservedVolumeAttachments exclude each other; set one of them" -}}
{{- end -}}
{{- end -}}

{{/* Arguments of the driver that Linux and Windows have in common, behind the endpoint: dict root, node. */}}
{{- define "ebs.nodeArguments" -}}
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
{{- end -}}

{{/* Environment of the driver behind CSI_ENDPOINT: dict root, node. */}}
{{- define "ebs.nodeEnv" -}}
{{- include "ebs.nodeNameEnv" .root }}
{{- include "ebs.proxyEnv" .root }}
{{- with .node.otelTracing }}{{ include "ebs.otelEnv" . }}{{ end }}
{{- include "ebs.fipsEnv" .root }}
{{- if .node.serviceAccount.disableMutation }}
- name: DISABLE_TAINT_WATCHER
  value: "true"
{{- end }}
{{- with .node.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A pod's fields that both systems have, up to its containers: dict root, node, os. */}}
{{- define "ebs.nodePod" -}}
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
  {{- range list "ebs.csi.aws.com/agent-not-ready" "ToBeDeletedByClusterAutoscaler" "karpenter.sh/disrupted" "karpenter.sh/disruption" }}
  - key: {{ . }}
    operator: Exists
  {{- end }}
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
{{- define "ebs.daemonSetHead" -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name }}
  namespace: {{ include "ebs.nodeNamespace" . }}
  labels:
    {{- include "ebs.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  revisionHistoryLimit: {{ .node.revisionHistoryLimit }}
  selector:
    matchLabels:
      {{- include "ebs.selector" . | nindent 6 }}
  updateStrategy:
    {{- toYaml .node.updateStrategy | nindent 4 }}
  template:
    metadata:
      labels:
        {{- include "ebs.podLabels" (dict "root" .root "app" .app "podLabels" .node.podLabels) | nindent 8 }}
      {{- with .node.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{/* Probes and ports of the driver on a node: dict metrics. */}}
{{- define "ebs.nodeHealth" -}}
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
  {{- include "ebs.healthProbe" (dict "initial" 10 "timeout" 3 "period" 10 "failures" 5) | nindent 2 }}
readinessProbe:
  {{- include "ebs.healthProbe" (dict "timeout" 3 "period" 5 "failures" 3) | nindent 2 }}
{{- end -}}

{{/* The registrar's own probe, without the default's httpGet where the values name another handler. */}}
{{- define "ebs.registrarProbe" -}}
{{- $probe := deepCopy . -}}
{{- if or $probe.exec $probe.tcpSocket $probe.grpc -}}
{{- $_ := unset $probe "httpGet" -}}
{{- end -}}
livenessProbe:
  {{- toYaml $probe | nindent 2 }}
{{- end -}}
