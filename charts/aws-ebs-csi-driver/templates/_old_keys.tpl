{{- /* Keys of earlier charts, refused by name because a user who sets one expects an effect. Each line is a problem. */}}
{{- define "aws-ebs-csi-driver.oldKeys" }}
{{- $values := . }}
{{- $moved := dict
  "volumeAttachLimit" "node.volumeAttachLimit"
  "tolerateAllTaints" "node.tolerateAllTaints"
  "logLevel" "controller.logLevel and node.logLevel"
  "enableDefaultStorageClass" "defaultStorageClass.enabled" }}
{{- range list "extraCreateMetadata" "extraVolumeTags" "k8sTagClusterId" "region" "replicaCount" "topologySpreadConstraints" }}
{{- $_ := set $moved . (printf "controller.%s" .) }}
{{- end }}
{{- range list "affinity" "nodeSelector" "podAnnotations" "priorityClassName" "resources" "tolerations" }}
{{- $_ := set $moved . (printf "controller.%s and node.%s" . .) }}
{{- end }}
{{- range $key, $instead := $moved }}
{{- if hasKey $values $key }}
{{ $key }}: it is not a key of this chart; set {{ $instead }} instead
{{- end }}
{{- end }}
{{- $gone := dict
  "enableVolumeScheduling" "topology is always on"
  "enableVolumeResizing" "expansion is always on"
  "enableVolumeSnapshot" "snapshots follow the cluster's API, or sidecars.snapshotter.forceEnable"
  "snapshotController" "the chart does not install the snapshot controller"
  "a1CompatibilityDaemonSet" "a1 instances are not supported" }}
{{- range $key, $reason := $gone }}
{{- if hasKey $values $key }}
{{ $key }}: it is a key of earlier charts; remove it, because {{ $reason }}
{{- end }}
{{- end }}
{{- include "aws-ebs-csi-driver.oldAccounts" $values }}
{{- include "aws-ebs-csi-driver.oldContainers" $values }}
{{- end }}

{{- define "aws-ebs-csi-driver.oldAccounts" }}
{{- if hasKey . "serviceAccount" }}
{{- $of := ternary .serviceAccount dict (kindIs "map" .serviceAccount) }}
{{- range $part := list "controller" "node" }}
{{- if hasKey $of $part }}
serviceAccount.{{ $part }}: it is a key of earlier charts; set {{ $part }}.serviceAccount instead
{{- end }}
{{- end }}
{{- if hasKey $of "snapshot" }}
serviceAccount.snapshot: it is a key of earlier charts; remove it, because the chart does not install the snapshot controller
{{- end }}
{{- if not (or (hasKey $of "controller") (hasKey $of "node") (hasKey $of "snapshot")) }}
serviceAccount: it is a key of earlier charts; set controller.serviceAccount and node.serviceAccount instead
{{- end }}
{{- end }}
{{- end }}

{{- define "aws-ebs-csi-driver.oldContainers" }}
{{- $values := . }}
{{- if hasKey .controller "extraVars" }}
controller.extraVars: it is a key of earlier charts; set controller.env, a list of name and value, instead
{{- end }}
{{- if hasKey .controller "tolerateAllTaints" }}
controller.tolerateAllTaints: it is not a key of this chart; set controller.tolerations instead
{{- end }}
{{- if hasKey .controller "replicas" }}
controller.replicas: it is not a key of this chart; set controller.replicaCount instead
{{- end }}
{{- range $part := list "controller" "node" }}
{{- $of := get $values $part }}
{{- if hasKey $of "containerResources" }}
{{ $part }}.containerResources: it is a key of earlier charts; set {{ $part }}.resources for the driver and sidecars.<name>.resources for the others instead
{{- end }}
{{- if kindIs "map" $of.env }}
{{ $part }}.env: it is a map by container, as in earlier charts; set {{ $part }}.env, a list of name and value, for the driver and sidecars.<name>.env for the others instead
{{- end }}
{{- end }}
{{- range $name := list "provisioner" "attacher" "snapshotter" "livenessProbe" "resizer" "nodeDriverRegistrar" }}
{{- $key := printf "%sImage" $name }}
{{- if hasKey $values.sidecars $key }}
sidecars.{{ $key }}: it is a key of earlier charts; set sidecars.{{ $name }}.image instead
{{- end }}
{{- end }}
{{- end }}
