{{- define "selector" -}}
app.kubernetes.io/name: aws-ebs-csi-driver
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "labels" -}}
{{ include "selector" . }}
helm.sh/chart: aws-ebs-csi-driver-2.64.0
app.kubernetes.io/version: "1.64.0"
app.kubernetes.io/component: csi-driver
app.kubernetes.io/managed-by: Helm
{{- end -}}
