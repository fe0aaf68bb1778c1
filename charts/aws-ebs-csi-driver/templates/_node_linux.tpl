{{/* The DaemonSet of Linux nodes: dict root, node, app, name. */}}
{{- define "aws-ebs-csi-driver.linuxNodes" -}}
{{- $root := .root -}}
{{- $node := .node -}}
{{- $kubelet := trimSuffix "/" $node.kubeletPath -}}
{{- $pluginDir := printf "%s/plugins/ebs.csi.aws.com/" $kubelet -}}
{{- include "aws-ebs-csi-driver.daemonSetHead" (merge (dict "annotations" $node.daemonSetAnnotations) .) }}
    spec:
      {{- include "aws-ebs-csi-driver.nodePod" (dict "root" $root "node" $node "os" "linux") | nindent 6 }}
      hostNetwork: {{ $node.hostNetwork }}
      {{- with $node.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $node.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: ebs-plugin
          image: {{ include "aws-ebs-csi-driver.fullImagePath" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - node
            - --endpoint=$(CSI_ENDPOINT)
            - --csi-mount-point-prefix={{ $kubelet }}/plugins/kubernetes.io/csi/ebs.csi.aws.com/
            {{- if $node.enableMetrics }}
            - --http-endpoint=0.0.0.0:3302
            {{- end }}
            {{- include "aws-ebs-csi-driver.nodeArguments" . | nindent 12 }}
            {{- range $node.additionalArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: CSI_ENDPOINT
              value: unix:/csi/csi.sock
            {{- include "aws-ebs-csi-driver.nodeEnv" . | nindent 12 }}
          {{- with $node.envFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          volumeMounts:
            - name: kubelet-dir
              mountPath: {{ $node.kubeletPath }}
              mountPropagation: Bidirectional
            - name: plugin-dir
              mountPath: /csi
            - name: device-dir
              mountPath: /dev
            {{- if $node.selinux }}
            - name: selinux-sysfs
              mountPath: /sys/fs/selinux
            - name: selinux-config
              mountPath: /etc/selinux/config
              readOnly: true
            {{- end }}
            {{- with $node.volumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- include "aws-ebs-csi-driver.nodeHealth" (dict "metrics" $node.enableMetrics) | nindent 10 }}
          lifecycle:
            preStop:
              exec:
                command: [/bin/aws-ebs-csi-driver, pre-stop-hook]
          {{- with $node.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $node.containerSecurityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          terminationMessagePolicy: FallbackToLogsOnError
        {{- $sidecar := $root.Values.sidecars.nodeDriverRegistrar }}
        - name: node-driver-registrar
          {{- include "aws-ebs-csi-driver.sidecarImage" (dict "root" $root "image" $sidecar.image) | nindent 10 }}
          args:
            - --csi-address=$(ADDRESS)
            - --kubelet-registration-path=$(DRIVER_REG_SOCK_PATH)
            - --http-endpoint=0.0.0.0:{{ $sidecar.healthPort | default 9809 }}
            - {{ include "aws-ebs-csi-driver.verbosity" (dict "root" $root "sidecar" $sidecar) }}
            {{- range $sidecar.additionalArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: ADDRESS
              value: /csi/csi.sock
            - name: DRIVER_REG_SOCK_PATH
              value: {{ $pluginDir }}csi.sock
            {{- with include "aws-ebs-csi-driver.http-proxy" $root }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with $sidecar.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with $node.envFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          volumeMounts:
            - name: plugin-dir
              mountPath: /csi
            - name: registration-dir
              mountPath: /registration
            - name: probe-dir
              mountPath: {{ $pluginDir }}
          ports:
            - name: healthz-ndr
              containerPort: {{ $sidecar.healthPort | default 9809 }}
              protocol: TCP
          {{- with $sidecar.livenessProbe }}
          {{- include "aws-ebs-csi-driver.registrarProbe" . | nindent 10 }}
          {{- end }}
          resources:
            {{- toYaml (default (dict "requests" (dict "cpu" "10m" "memory" "32Mi") "limits" (dict "memory" "32Mi")) $sidecar.resources) | nindent 12 }}
          {{- with $sidecar.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          terminationMessagePolicy: FallbackToLogsOnError
        {{- if include "aws-ebs-csi-driver.hasLivenessProbe" $root }}
        {{- include "aws-ebs-csi-driver.livenessProbe" (dict "root" $root "volume" "plugin-dir" "args" "" "envFrom" $node.envFrom) | nindent 8 }}
        {{- end }}
      volumes:
        - name: kubelet-dir
          hostPath:
            path: {{ $node.kubeletPath }}
            type: Directory
        - name: plugin-dir
          hostPath:
            path: {{ $pluginDir }}
            type: DirectoryOrCreate
        - name: registration-dir
          hostPath:
            path: {{ $kubelet }}/plugins_registry/
            type: Directory
        - name: device-dir
          hostPath:
            path: /dev
            type: Directory
        {{- if $node.selinux }}
        - name: selinux-sysfs
          hostPath:
            path: /sys/fs/selinux
            type: Directory
        - name: selinux-config
          hostPath:
            path: /etc/selinux/config
            type: File
        {{- end }}
        - {{- toYaml (mergeOverwrite (dict "name" "probe-dir") (deepCopy (default dict $node.probeDirVolume))) | nindent 10 }}
        {{- with $node.volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
