{{/* The Service of a metrics page, and the ServiceMonitor where Prometheus' operator is: dict root, values, name, app, port, namespace, local. */}}
{{- define "aws-ebs-csi-driver.metricsService" -}}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    app: {{ .name }}
  {{- if .values.enablePrometheusAnnotations }}
  annotations:
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ .port | toString | quote }}
  {{- end }}
spec:
  type: ClusterIP
  {{- if .local }}
  internalTrafficPolicy: Local
  {{- end }}
  selector:
    app: {{ .app }}
  ports:
    - name: metrics
      port: {{ .port }}
      targetPort: {{ .port }}
      protocol: TCP
{{- if or .values.serviceMonitor.forceEnable (.root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor") }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- toYaml (mergeOverwrite (dict "app" .name) (deepCopy (default dict .values.serviceMonitor.labels))) | nindent 4 }}
spec:
  selector:
    matchLabels:
      app: {{ .name }}
  namespaceSelector:
    matchNames:
      - {{ .namespace }}
  endpoints:
    - targetPort: {{ .port }}
      path: /metrics
      interval: {{ default "15s" .values.serviceMonitor.interval }}
      {{- with .values.serviceMonitor.relabelings }}
      relabelings:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}
{{- end -}}
