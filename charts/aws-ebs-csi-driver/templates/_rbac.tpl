{{/* A cluster role and its binding: dict root, role, binding, account, namespace, rules (list of lists: group, resources, verbs), more. */}}
{{- define "aws-ebs-csi-driver.clusterRole" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .role }}
  labels:
    {{- include "aws-ebs-csi-driver.labels" .root | nindent 4 }}
rules:
  {{- range .rules }}
  - apiGroups: [{{ index . 0 | quote }}]
    resources: [{{ index . 1 | replace " " ", " }}]
    verbs: [{{ index . 2 | replace " " ", " }}]
  {{- end }}
  {{- with .more }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .binding }}
  labels:
    {{- include "aws-ebs-csi-driver.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ .namespace }}
{{- end -}}

{{/* A service account: dict root, name, namespace, values, annotations (YAML). */}}
{{- define "aws-ebs-csi-driver.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .values.name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "aws-ebs-csi-driver.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- . | nindent 4 }}
  {{- end }}
{{- if kindIs "bool" .values.automountServiceAccountToken }}
automountServiceAccountToken: {{ .values.automountServiceAccountToken }}
{{- end }}
{{- end -}}
