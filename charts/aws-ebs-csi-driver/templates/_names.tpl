{{/* The chart's name as objects carry it. */}}
{{- define "ebs.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The selector labels of pods, as YAML. A release called "kustomize" has no instance: its objects are not Helm's. */}}
{{- define "ebs.selectorLabels" -}}
{{- $labels := dict "app.kubernetes.io/name" (include "ebs.name" .) -}}
{{- if ne .Release.Name "kustomize" -}}
{{- $_ := set $labels "app.kubernetes.io/instance" .Release.Name -}}
{{- end -}}
{{- toYaml $labels -}}
{{- end -}}

{{/* The labels of an object, as YAML. */}}
{{- define "ebs.labels" -}}
{{- $labels := include "ebs.selectorLabels" . | fromYaml -}}
{{- if ne .Release.Name "kustomize" -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- $_ := set $labels "app.kubernetes.io/version" (toString .Chart.AppVersion) -}}
{{- $_ := set $labels "app.kubernetes.io/component" "csi-driver" -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .Release.Service -}}
{{- end -}}
{{- toYaml (mergeOverwrite $labels (deepCopy (default dict .Values.customLabels))) -}}
{{- end -}}

{{/* The labels of a pod: dict root, app, podLabels. Selector labels cannot be overridden, because the API server would reject the object. */}}
{{- define "ebs.podLabels" -}}
{{- $labels := include "ebs.labels" .root | fromYaml -}}
{{- $labels = mergeOverwrite $labels (deepCopy (default dict .podLabels)) -}}
{{- $labels = mergeOverwrite $labels (include "ebs.selectorLabels" .root | fromYaml) (dict "app" .app) -}}
{{- toYaml $labels -}}
{{- end -}}

{{- define "ebs.selector" -}}
{{- toYaml (mergeOverwrite (dict "app" .app) (include "ebs.selectorLabels" .root | fromYaml)) -}}
{{- end -}}

{{/* An image's name: dict root, image, tag (used if the image sets no tag). */}}
{{- define "ebs.image" -}}
{{- $tag := default .tag (toString (default "" .image.tag)) -}}
{{- printf "%s%s:%s" (default "" .root.Values.image.containerRegistry) .image.repository $tag -}}
{{- end -}}

{{- define "ebs.driverImage" -}}
{{- include "ebs.image" (dict "root" . "image" .Values.image "tag" (printf "v%s" .Chart.AppVersion)) -}}
{{- end -}}

{{/* image and imagePullPolicy of a sidecar: dict root, image. */}}
{{- define "ebs.sidecarImage" -}}
image: {{ include "ebs.image" (dict "root" .root "image" .image "tag" "") }}
imagePullPolicy: {{ default .root.Values.image.pullPolicy .image.pullPolicy }}
{{- end -}}

{{- define "ebs.nodeNamespace" -}}
{{- default .root.Release.Namespace .node.namespaceOverride -}}
{{- end -}}

{{/* Merges two maps as YAML: keys of `over` replace those of `under`, including false, 0 and empty values. dict over, under. */}}
{{- define "ebs.override" -}}
{{- $merged := deepCopy .under -}}
{{- range $key, $value := .over -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $merged $key)) $value -}}
{{- $_ := set $merged $key (include "ebs.override" (dict "over" $value "under" (get $merged $key)) | fromYaml) -}}
{{- else -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end -}}

{{/* "true" if the cluster serves the snapshot API, or the values force it. */}}
{{- define "ebs.snapshots" -}}
{{- $api := .Capabilities.APIVersions -}}
{{- if or .Values.sidecars.snapshotter.forceEnable ($api.Has "snapshot.storage.k8s.io/v1") ($api.Has "snapshot.storage.k8s.io/v1beta1") -}}
true
{{- end -}}
{{- end -}}

{{/* "true" where the cluster serves VolumeAttributesClass: always since 1.34, before where it is discovered. */}}
{{- define "ebs.volumeAttributesClasses" -}}
{{- $api := .Capabilities.APIVersions -}}
{{- if or (semverCompare ">=1.34-0" .Capabilities.KubeVersion.Version) ($api.Has "storage.k8s.io/v1/VolumeAttributesClass") ($api.Has "storage.k8s.io/v1beta1/VolumeAttributesClass") -}}
true
{{- end -}}
{{- end -}}

{{/* The port of the controller's metrics page; that of httpEndpoint, where it is given. */}}
{{- define "ebs.controllerMetricsPort" -}}
{{- $endpoint := default "" .Values.controller.httpEndpoint -}}
{{- $port := regexFind "[0-9]+$" $endpoint -}}
{{- default "3301" $port -}}
{{- end -}}

{{- /* A text, number or boolean as the text that Kubernetes wants of it: whole numbers without an exponent. */}}
{{- define "ebs.text" }}
{{- if and (kindIs "float64" .) (eq . (float64 (int64 .))) }}{{- printf "%d" (int64 .) }}{{- else }}{{- toString . }}{{- end }}
{{- end }}

{{- /* The map `of`, the `field` of the `class` in the values' `list`, with texts as values. Kubernetes takes nothing else in parameters, labels and annotations. */}}
{{- define "ebs.texts" }}
{{- $at := . }}
{{- $texts := dict }}
{{- range $key, $value := .of }}
{{- if or (kindIs "slice" $value) (kindIs "map" $value) }}
{{- fail (printf "%s: %s.%s of class %q is a %s, but must be a text, a number or a boolean" $at.list $at.field $key $at.class (ternary "list" "map" (kindIs "slice" $value))) }}
{{- else if not (kindIs "invalid" $value) }}
{{- $_ := set $texts $key (include "ebs.text" $value) }}
{{- end }}
{{- end }}
{{- toYaml $texts }}
{{- end }}

{{- /* Name, labels and annotations of a `class` in the values' `list`. */}}
{{- define "ebs.classMetadata" }}
{{- $metadata := pick .class "name" }}
{{- $name := toString .class.name }}
{{- $list := .list }}
{{- range $field, $of := pick .class "annotations" "labels" }}
{{- if $of }}{{- $_ := set $metadata $field (include "ebs.texts" (dict "list" $list "class" $name "field" $field "of" $of) | fromYaml) }}{{- end }}
{{- end }}
{{- toYaml $metadata }}
{{- end }}
