{{- /* Templates with the names that the reference's chart gives them. A chart that contains this one may call or override them. */}}

{{/* The value of the label app.kubernetes.io/name. */}}
{{- define "aws-ebs-csi-driver.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* For charts that contain this one: this chart's own object names are fixed. */}}
{{- define "aws-ebs-csi-driver.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The value of the label helm.sh/chart. */}}
{{- define "aws-ebs-csi-driver.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The selector labels of pods, as YAML. A release called "kustomize" has no instance: its objects are not Helm's. */}}
{{- define "aws-ebs-csi-driver.selectorLabels" -}}
{{- $labels := dict "app.kubernetes.io/name" (include "aws-ebs-csi-driver.name" .) -}}
{{- if ne .Release.Name "kustomize" -}}
{{- $_ := set $labels "app.kubernetes.io/instance" .Release.Name -}}
{{- end -}}
{{- toYaml $labels -}}
{{- end -}}

{{/* The labels of an object, as YAML. */}}
{{- define "aws-ebs-csi-driver.labels" -}}
{{- $labels := include "aws-ebs-csi-driver.selectorLabels" . | fromYaml -}}
{{- if ne .Release.Name "kustomize" -}}
{{- $_ := set $labels "helm.sh/chart" (include "aws-ebs-csi-driver.chart" .) -}}
{{- $_ := set $labels "app.kubernetes.io/version" (toString .Chart.AppVersion) -}}
{{- $_ := set $labels "app.kubernetes.io/component" "csi-driver" -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .Release.Service -}}
{{- end -}}
{{- toYaml (mergeOverwrite $labels (deepCopy (default dict .Values.customLabels))) -}}
{{- end -}}

{{/* The driver's image. */}}
{{- define "aws-ebs-csi-driver.fullImagePath" -}}
{{- include "aws-ebs-csi-driver.image" (dict "root" . "image" .Values.image "tag" (printf "v%s" .Chart.AppVersion)) -}}
{{- end -}}

{{/* The argument for controller.extraVolumeTags, as a YAML list; empty without tags. Kubernetes replaces $(NAME) in arguments, and
$$ by $: doubled, each $ reaches the driver as it is written. */}}
{{- define "aws-ebs-csi-driver.extra-volume-tags" -}}
{{- $tags := list -}}
{{- range $key, $value := .Values.controller.extraVolumeTags -}}
{{- $tags = append $tags (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- if $tags -}}
- {{ printf "--extra-tags=%s" (join "," $tags) | replace "$" "$$" | quote }}
{{- end -}}
{{- end -}}

{{/* Environment of proxies, as a YAML list; empty without a proxy. */}}
{{- define "aws-ebs-csi-driver.http-proxy" -}}
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

{{/* Tolerations that every node pod has, as a YAML list. */}}
{{- define "aws-ebs-csi-driver.daemonset-tolerations" -}}
{{- $tolerations := list -}}
{{- range list "ebs.csi.aws.com/agent-not-ready" "ToBeDeletedByClusterAutoscaler" "karpenter.sh/disrupted" "karpenter.sh/disruption" -}}
{{- $tolerations = append $tolerations (dict "key" . "operator" "Exists") -}}
{{- end -}}
{{- toYaml $tolerations -}}
{{- end -}}

{{- /* The chart's other helpers. */}}

{{/* The labels of a pod: dict root, app, podLabels. Selector labels cannot be overridden, because the API server would reject the object. */}}
{{- define "aws-ebs-csi-driver.podLabels" -}}
{{- $labels := include "aws-ebs-csi-driver.labels" .root | fromYaml -}}
{{- $labels = mergeOverwrite $labels (deepCopy (default dict .podLabels)) -}}
{{- toYaml (mergeOverwrite $labels (include "aws-ebs-csi-driver.selector" . | fromYaml)) -}}
{{- end -}}

{{/* The selector of pods: dict root, app. */}}
{{- define "aws-ebs-csi-driver.selector" -}}
{{- toYaml (mergeOverwrite (dict "app" .app) (include "aws-ebs-csi-driver.selectorLabels" .root | fromYaml)) -}}
{{- end -}}

{{/* An image's name: dict root, image, tag (used if the image sets no tag). */}}
{{- define "aws-ebs-csi-driver.image" -}}
{{- $tag := default .tag (toString (default "" .image.tag)) -}}
{{- printf "%s%s:%s" (default "" .root.Values.image.containerRegistry) .image.repository $tag -}}
{{- end -}}

{{/* image and imagePullPolicy of a sidecar: dict root, image. */}}
{{- define "aws-ebs-csi-driver.sidecarImage" -}}
image: {{ include "aws-ebs-csi-driver.image" (dict "root" .root "image" .image "tag" "") }}
imagePullPolicy: {{ default .root.Values.image.pullPolicy .image.pullPolicy }}
{{- end -}}

{{- define "aws-ebs-csi-driver.nodeNamespace" -}}
{{- default .root.Release.Namespace .node.namespaceOverride -}}
{{- end -}}

{{/* Merges two maps as YAML: keys of `over` replace those of `under`, including false, 0 and empty values. dict over, under. */}}
{{- define "aws-ebs-csi-driver.override" -}}
{{- $merged := deepCopy .under -}}
{{- range $key, $value := .over -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $merged $key)) $value -}}
{{- $_ := set $merged $key (include "aws-ebs-csi-driver.override" (dict "over" $value "under" (get $merged $key)) | fromYaml) -}}
{{- else -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end -}}

{{/* "true" if the cluster serves the snapshot API, or the values force it. */}}
{{- define "aws-ebs-csi-driver.snapshots" -}}
{{- $api := .Capabilities.APIVersions -}}
{{- if or .Values.sidecars.snapshotter.forceEnable ($api.Has "snapshot.storage.k8s.io/v1") ($api.Has "snapshot.storage.k8s.io/v1beta1") -}}
true
{{- end -}}
{{- end -}}

{{/* "true" where the cluster serves VolumeAttributesClass: always since 1.34, before where it is discovered. */}}
{{- define "aws-ebs-csi-driver.volumeAttributesClasses" -}}
{{- $api := .Capabilities.APIVersions -}}
{{- if or (semverCompare ">=1.34-0" .Capabilities.KubeVersion.Version) ($api.Has "storage.k8s.io/v1/VolumeAttributesClass") ($api.Has "storage.k8s.io/v1beta1/VolumeAttributesClass") -}}
true
{{- end -}}
{{- end -}}

{{/* The port of the controller's metrics page; that of httpEndpoint, where it is given. */}}
{{- define "aws-ebs-csi-driver.controllerMetricsPort" -}}
{{- $endpoint := default "" .Values.controller.httpEndpoint -}}
{{- $port := regexFind "[0-9]+$" $endpoint -}}
{{- default "3301" $port -}}
{{- end -}}

{{- /* A text, number or boolean as the text that Kubernetes wants of it: whole numbers without an exponent. */}}
{{- define "aws-ebs-csi-driver.text" }}
{{- if and (kindIs "float64" .) (eq . (float64 (int64 .))) }}{{- printf "%d" (int64 .) }}{{- else }}{{- toString . }}{{- end }}
{{- end }}

{{- /* A map with texts as values. Kubernetes takes nothing else in parameters, labels and annotations. */}}
{{- define "aws-ebs-csi-driver.texts" }}
{{- $texts := dict }}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{- $_ := set $texts $key (include "aws-ebs-csi-driver.text" $value) }}
{{- end }}
{{- end }}
{{- toYaml $texts }}
{{- end }}

{{- /* Name, labels and annotations of a class. */}}
{{- define "aws-ebs-csi-driver.classMetadata" }}
{{- $metadata := pick . "name" }}
{{- range $field, $of := pick . "annotations" "labels" }}
{{- if $of }}{{- $_ := set $metadata $field (include "aws-ebs-csi-driver.texts" $of | fromYaml) }}{{- end }}
{{- end }}
{{- toYaml $metadata }}
{{- end }}
