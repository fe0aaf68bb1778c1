{{- /*
What validate.yaml refuses. Each template gets the values and prints a line for each problem: the path of the value, the problem, and the
next step. Lines contain no text of the values unless it is quoted.
*/}}

{{/* Values that the templates need. Replaces each missing map by an empty one, so that the other checks can read the values. */}}
{{- define "aws-ebs-csi-driver.missing" }}
{{- $values := . }}
{{- $maps := list "image" "helmTester" "metrics" "metrics.prometheusRule" "metrics.dashboard" "controller" "controller.volumeModificationFeature" "controller.serviceMonitor" "controller.serviceAccount" "node" "node.serviceMonitor" "node.serviceAccount" "sidecars" "defaultStorageClass" }}
{{- $texts := list "controller.serviceAccount.name" "node.serviceAccount.name" "node.kubeletPath" }}
{{- range $name := list "provisioner" "attacher" "snapshotter" "resizer" "volumemodifier" "metadataLabeler" "livenessProbe" "nodeDriverRegistrar" }}
{{- $maps = append $maps (printf "sidecars.%s" $name) }}
{{- if not (has $name (list "metadataLabeler" "livenessProbe")) }}
{{- $maps = append $maps (printf "sidecars.%s.image" $name) }}
{{- $texts = concat $texts (list (printf "sidecars.%s.image.repository" $name) (printf "sidecars.%s.image.tag" $name)) }}
{{- end }}
{{- end }}
{{- range $path := concat $maps $texts }}
{{- $keys := splitList "." $path }}
{{- $key := last $keys }}
{{- $parent := $values }}
{{- range initial $keys }}{{- $parent = get $parent . }}{{- end }}
{{- $value := get $parent $key }}
{{- if and (has $path $maps) (not (kindIs "map" $value)) }}
{{- $_ := set $parent $key dict }}
{{ $path }}: it must be a map; null removes its defaults, so set single keys to null instead
{{- else if and (has $path $texts) (or (kindIs "map" $value) (empty $value)) }}
{{ $path }}: it is empty; set it
{{- end }}
{{- end }}
{{- end }}

{{/* dict root, values. */}}
{{- define "aws-ebs-csi-driver.problems" }}
{{- $root := .root }}
{{- $values := .values }}
{{- if $values.fips }}
fips: the driver has no validated cryptographic module, so it does not start with this value; set it to false, and AWS_USE_FIPS_ENDPOINT to "true" in controller.env for AWS's FIPS endpoints
{{- end }}
{{- include "aws-ebs-csi-driver.imageProblems" . }}
{{- include "aws-ebs-csi-driver.accountProblems" . }}
{{- include "aws-ebs-csi-driver.electionProblems" $values }}
{{- include "aws-ebs-csi-driver.controllerProblems" . }}
{{- include "aws-ebs-csi-driver.nodeProblems" (dict "root" $root "path" "node" "node" $values.node) }}
{{- range $name, $over := $values.additionalDaemonSets }}
{{- $path := printf "additionalDaemonSets.%s" $name }}
{{- if or (eq $name "windows") (not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $name)) }}
{{ $path }}: the DaemonSet cannot be called {{ printf "ebs-csi-node-%s" $name | quote }}; choose another name of lower-case letters, digits and hyphens
{{- end }}
{{- $node := include "aws-ebs-csi-driver.override" (dict "over" (default dict $over) "under" $values.node) | fromYaml }}
{{- include "aws-ebs-csi-driver.nodeProblems" (dict "root" $root "path" $path "node" $node) }}
{{- end }}
{{- include "aws-ebs-csi-driver.windowsProblems" . }}
{{- if and $values.metrics.prometheusRule.enabled (not (or $values.controller.enableMetrics $values.controller.httpEndpoint $values.node.enableMetrics)) }}
metrics.prometheusRule.enabled: the alerts cannot fire, because the driver serves no metrics; set controller.enableMetrics and node.enableMetrics
{{- end }}
{{- end }}

{{/* The driver's image. It is the reference's when a registry of its project has it, or when its tag is one of the reference's. */}}
{{- define "aws-ebs-csi-driver.imageProblems" }}
{{- $image := .values.image }}
{{- $repository := printf "%s%s" (default "" $image.containerRegistry) (default "" $image.repository) }}
{{- $tag := toString (default "" $image.tag) }}
{{- $registries := "(^|/)(public\\.ecr\\.aws/ebs-csi-driver|registry\\.k8s\\.io/provider-aws|[0-9]{12}\\.dkr\\.ecr\\.[-a-z0-9]+\\.amazonaws\\.com(\\.cn)?/eks)/aws-ebs-csi-driver$" }}
{{- $isOfReference := and (regexMatch "(^|/)aws-ebs-csi-driver$" $repository) (regexMatch "^v1\\.[0-9]+\\.[0-9]+" $tag) (ne $tag (printf "v%s" .root.Chart.AppVersion)) }}
{{- if not $image.repository }}
image.repository: no image of the driver is set; set the repository to which you pushed it, for example --set image.repository=registry.example.com/aws-ebs-csi-driver
{{- else if regexMatch $registries $repository }}
image.repository: {{ quote $repository }} has the images of another driver, kubernetes-sigs/aws-ebs-csi-driver; set the repository of this driver's image
{{- else if $isOfReference }}
image.tag: {{ quote $tag }} is a version of another driver, kubernetes-sigs/aws-ebs-csi-driver; remove it, or set a tag of this driver's image
{{- end }}
{{- end }}

{{- define "aws-ebs-csi-driver.accountProblems" }}
{{- $values := .values }}
{{- range $part := list "controller" "node" }}
{{- $account := (get $values $part).serviceAccount }}
{{- if and $account.create (kindIs "bool" $account.automountServiceAccountToken) (not $account.automountServiceAccountToken) }}
{{ $part }}.serviceAccount.automountServiceAccountToken: the pods cannot reach the API server without a token; remove the value
{{- end }}
{{- end }}
{{- if and $values.node.restrictToOwnNode (include "aws-ebs-csi-driver.oneAccount" .) }}
node.restrictToOwnNode: the policy would also hold back the controller, which has the same service account; give node.serviceAccount.name another name, or remove the value
{{- end }}
{{- end }}

{{/* Two sidecars of a kind that work at once harm each other. volumemodifier ignores its own flag and follows the resizer's lease. */}}
{{- define "aws-ebs-csi-driver.electionProblems" }}
{{- $values := . }}
{{- range $name := list "provisioner" "attacher" "volumemodifier" "resizer" }}
{{- $sidecar := get $values.sidecars $name }}
{{- $election := $sidecar.leaderElection }}
{{- $isOff := false }}
{{- if and (eq $name "resizer") (kindIs "invalid" $election) }}
{{- $isOff = true }}
{{- else if not (kindIs "map" $election) }}
sidecars.{{ $name }}.leaderElection: it must be a map; set enabled in it to true or false
{{- else if and (ne $name "resizer") (not (kindIs "bool" $election.enabled)) }}
sidecars.{{ $name }}.leaderElection.enabled: it must be true or false; set one of them
{{- else if kindIs "bool" $election.enabled }}
{{- $isOff = not $election.enabled }}
{{- end }}
{{- range $sidecar.additionalArgs }}
{{- if regexMatch "^--?leader-election=(false|False|FALSE|f|F|0)$" (toString .) }}{{- $isOff = true }}{{- end }}
{{- end }}
{{- if and $isOff (ne $name "volumemodifier") (gt (int $values.controller.replicaCount) 1) }}
sidecars.{{ $name }}.leaderElection: without leader election, the sidecars of all replicas work at once; turn it on, or set controller.replicaCount to 1
{{- end }}
{{- if and $isOff (eq $name "resizer") $values.controller.volumeModificationFeature.enabled }}
sidecars.resizer.leaderElection: the volumemodifier works only beside a resizer with leader election; turn it on
{{- end }}
{{- end }}
{{- end }}

{{- define "aws-ebs-csi-driver.controllerProblems" }}
{{- $controller := .values.controller }}
{{- $budget := default dict $controller.podDisruptionBudget }}
{{- if and $budget.enabled (not (kindIs "invalid" $budget.maxUnavailable)) (not (kindIs "invalid" $budget.minAvailable)) }}
controller.podDisruptionBudget: it has maxUnavailable and minAvailable, of which Kubernetes accepts one; remove the other
{{- end }}
{{- with $controller.region }}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" .) }}
controller.region: {{ quote . }} is not the name of a region; set one such as us-west-2
{{- end }}
{{- end }}
{{- with $controller.httpEndpoint }}
{{- $port := regexFind "[0-9]+$" . | int }}
{{- if or (not (regexMatch "^([^:]*|\\[[^]]*\\]):[0-9]{1,5}$" .)) (gt $port 65535) }}
controller.httpEndpoint: {{ quote . }} is not a listen address; set host:port, or :port for all addresses
{{- else if or (eq $port 9808) (and $controller.enableMetrics (ge $port 3302) (le $port 3307)) }}
controller.httpEndpoint: another listener of the pod has port {{ $port }}; choose another port
{{- end }}
{{- end }}
{{- include "aws-ebs-csi-driver.tagProblems" $controller.extraVolumeTags }}
{{- include "aws-ebs-csi-driver.driverProblems" (dict "root" .root "path" "controller" "part" $controller "mode" "controller") }}
{{- include "aws-ebs-csi-driver.driverProblems" (dict "root" .root "path" "sidecars.metadataLabeler" "part" .values.sidecars.metadataLabeler "mode" "metadataLabeler") }}
{{- end }}

{{/* A DaemonSet's values: dict root, path, node. */}}
{{- define "aws-ebs-csi-driver.nodeProblems" }}
{{- $node := .node }}
{{- if and $node.volumeAttachLimit (not (kindIs "invalid" $node.reservedVolumeAttachments)) (ge (int $node.reservedVolumeAttachments) 0) }}
{{ .path }}.volumeAttachLimit: it excludes {{ .path }}.reservedVolumeAttachments; remove one of them
{{- end }}
{{- range splitList "," (default "imds" $node.metadataSources) }}
{{- if not (has (trim . | lower) (list "imds" "kubernetes" "metadata-labeler")) }}
{{ $.path }}.metadataSources: {{ trim . | quote }} is not a source; list imds, kubernetes and metadata-labeler, separated by commas
{{- end }}
{{- end }}
{{- if and $node.windowsFormatOverCsiProxy $node.windowsHostProcess }}
{{ .path }}.windowsFormatOverCsiProxy: a host process does not use csi-proxy; remove the value, or windowsHostProcess
{{- end }}
{{- include "aws-ebs-csi-driver.driverProblems" (dict "root" .root "path" .path "part" $node "mode" "node") }}
{{- end }}

{{/* What any process of the driver refuses at its start: dict root, path, part, mode. files/flags.yaml lists the flags of each mode. */}}
{{- define "aws-ebs-csi-driver.driverProblems" }}
{{- $flags := get (.root.Files.Get "files/flags.yaml" | fromYaml) .mode }}
{{- range .part.additionalArgs }}
{{- $flag := regexFind "^--[^=]+" (toString .) | trimPrefix "--" }}
{{- if and $flag (not (has $flag $flags)) }}
{{ $.path }}.additionalArgs: {{ printf "--%s" $flag | quote }} is not a flag of mode {{ $.mode }}; remove it, or choose one from docs/options.md
{{- end }}
{{- end }}
{{- if kindIs "slice" .part.env }}
{{- range .part.env }}
{{- if eq (toString .name) "CSI_ENDPOINT" }}
{{ $.path }}.env: the chart sets CSI_ENDPOINT to the socket that the other containers use; remove it
{{- else if and (eq (toString .name) "GODEBUG") (regexMatch "(^|,) *fips140 *= *(on|only) *(,|$)" (toString .value)) }}
{{ $.path }}.env: GODEBUG asks for FIPS mode, for which the driver has no validated module; remove it
{{- else if and (has (toString .name) (list "AWS_EC2_ENDPOINT" "AWS_SAGEMAKER_ENDPOINT")) .value (not (regexMatch "^https?://[^@?#]+$" (toString .value))) }}
{{ $.path }}.env: {{ .name }} must be a URL without user name, query and fragment; set one such as https://ec2.us-west-2.amazonaws.com
{{- end }}
{{- end }}
{{- end }}
{{- with .part.otelTracing }}
{{- $endpoint := default "" .otelExporterEndpoint }}
{{- if contains "@" $endpoint }}
{{ $.path }}.otelTracing.otelExporterEndpoint: it must not contain a user name or password; set OTEL_EXPORTER_OTLP_HEADERS in {{ $.path }}.env instead
{{- else if and (contains "://" $endpoint) (not (regexMatch "^https?://" $endpoint)) }}
{{ $.path }}.otelTracing.otelExporterEndpoint: it must start with http:// or https://, or be HOST:PORT; change it
{{- end }}
{{- end }}
{{- end }}

{{/* The driver splits --extra-tags at commas, cuts each part at its first equals sign and drops blanks around both halves. */}}
{{- define "aws-ebs-csi-driver.tagProblems" }}
{{- $reserved := list "CSIVolumeName" "CSIVolumeSnapshotName" "ebs.csi.aws.com/cluster-name" }}
{{- range $key, $value := . }}
{{- if contains "," $key }}
controller.extraVolumeTags: tag key {{ quote $key }} has a comma, which separates tags in --extra-tags; choose another key
{{- else if contains "=" $key }}
controller.extraVolumeTags: tag key {{ quote $key }} has an equals sign, which ends the key in --extra-tags; choose another key
{{- else if ne (trim $key) $key }}
controller.extraVolumeTags: tag key {{ quote $key }} begins or ends with a blank, which --extra-tags drops; remove it
{{- else if or (has $key $reserved) (hasPrefix "kubernetes.io" $key) (hasPrefix "ebs.csi.aws.com/" $key) (hasPrefix "aws:" (lower $key)) }}
controller.extraVolumeTags: tag key {{ quote $key }} is reserved for the driver, Kubernetes or AWS; choose another key
{{- end }}
{{- if contains "," $value }}
controller.extraVolumeTags: the value of tag {{ quote $key }} has a comma, which separates tags in --extra-tags; remove it, or set the tag with tagSpecification_1 in the parameters of your classes
{{- else if ne (trim $value) $value }}
controller.extraVolumeTags: the value of tag {{ quote $key }} begins or ends with a blank, which --extra-tags drops; remove it
{{- end }}
{{- end }}
{{- end }}

{{/* Windows nodes that another driver's image serves would lose it, unless the new image has Windows variants. */}}
{{- define "aws-ebs-csi-driver.windowsProblems" }}
{{- $node := .values.node }}
{{- if kindIs "invalid" $node.enableWindows }}
{{- $namespace := default .root.Release.Namespace $node.namespaceOverride }}
{{- $there := lookup "apps/v1" "DaemonSet" $namespace "ebs-csi-node-windows" }}
{{- $nodes := int (dig "status" "desiredNumberScheduled" 0 $there) }}
{{- if and $there $nodes }}
{{- $image := "" }}
{{- range $there.spec.template.spec.containers }}{{- if eq .name "ebs-plugin" }}{{- $image = .image }}{{- end }}{{- end }}
{{- $own := printf "%s%s:" (default "" .values.image.containerRegistry) (default "" .values.image.repository) }}
{{- if not (hasPrefix $own $image) }}
node.enableWindows: the image {{ quote $image }} serves {{ $nodes }} Windows nodes, and this release would replace it; set true if your image has Windows variants, or false to take the driver off these nodes
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The classes: dict root, values. */}}
{{- define "aws-ebs-csi-driver.storageProblems" }}
{{- $apis := .root.Capabilities.APIVersions }}
{{- $snapshots := or .values.sidecars.snapshotter.forceEnable ($apis.Has "snapshot.storage.k8s.io/v1") ($apis.Has "snapshot.storage.k8s.io/v1beta1") }}
{{- range $list := list "storageClasses" "volumeSnapshotClasses" }}
{{- range $at, $class := index $.values $list }}
{{- $path := printf "%s[%d]" $list $at }}
{{- if not (and (kindIs "map" $class) (index (ternary $class dict (kindIs "map" $class)) "name")) }}
{{ $path }}: the class has no name; set name
{{- else }}
{{- range $field := list "annotations" "labels" "parameters" }}
{{- range $key, $value := index $class $field }}
{{- if or (kindIs "slice" $value) (kindIs "map" $value) }}
{{ $path }}.{{ $field }}: {{ quote $key }} of class {{ quote $class.name }} is a {{ ternary "list" "map" (kindIs "slice" $value) }}; set a text, a number or a boolean
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq $list "volumeSnapshotClasses") $snapshots (not $class.deletionPolicy) }}
{{ $path }}.deletionPolicy: class {{ quote $class.name }} needs one; set Delete or Retain
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
