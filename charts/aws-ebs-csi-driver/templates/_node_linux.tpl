{{/* The DaemonSet of Linux nodes: dict root, node, app, name. */}}
{{- define "ebs.linuxNodes" -}}
{{- $root := .root -}}
{{- $node := .node -}}
{{- include "ebs.checkNode" . -}}
{{- $kubelet := trimSuffix "/" $node.kubeletPath -}}
{{- $pluginDir := printf "%s/plugins/ebs.csi.aws.com/" $kubelet -}}
{{- include "ebs.daemonSetHead" (merge (dict "annotations" $node.daemonSetAnnotations) .) }}
    spec:
      {{- include "ebs.nodePod" (dict "root" $root "node" $node "os" "linux") | nindent 6 }}
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
          image: {{ include "ebs.driverImage" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - node
            - --endpoint=$(CSI_ENDPOINT)
            - --csi-mount-point-prefix={{ $kubelet }}/plugins/kubernetes.io/csi/ebs.csi.aws.com/
            {{- if $node.enableMetrics }}
            - --http-endpoint=0.0.0.0:3302
            {{- end }}
            {{- include "ebs.nodeArguments" . | nindent 12 }}
            {{- range $node.additionalArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: CSI_ENDPOINT
              value: unix:/csi/csi.sock
            {{- include "ebs.nodeEnv" . | nindent 12 }}
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
          {{- include "ebs.nodeHealth" (dict "metrics" $node.enableMetrics) | nindent 10 }}
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
          {{- include "ebs.sidecarImage" (dict "root" $root "image" $sidecar.image) | nindent 10 }}
          args:
            - --csi-address=$(ADDRESS)
            - --kubelet-registration-path=$(DRIVER_REG_SOCK_PATH)
            - --http-endpoint=0.0.0.0:{{ $sidecar.healthPort | default 9809 }}
            - {{ include "ebs.verbosity" (dict "root" $root "sidecar" $sidecar) }}
            {{- range $sidecar.additionalArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: ADDRESS
              value: /csi/csi.sock
            - name: DRIVER_REG_SOCK_PATH
              value: {{ $pluginDir }}csi.sock
            {{- with include "ebs.proxyEnv" $root }}
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
          {{- include "ebs.registrarProbe" . | nindent 10 }}
          {{- end }}
          resources:
            {{- toYaml (default (dict "requests" (dict "cpu" "10m" "memory" "32Mi") "limits" (dict "memory" "32Mi")) $sidecar.resources) | nindent 12 }}
          {{- with $sidecar.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          terminationMessagePolicy: FallbackToLogsOnError
        {{- $sidecar = $root.Values.sidecars.livenessProbe }}
        - name: liveness-probe
          {{- include "ebs.sidecarImage" (dict "root" $root "image" $sidecar.image) | nindent 10 }}
          args:
            - --csi-address=/csi/csi.sock
            {{- range $sidecar.additionalArgs }}
            - {{ . | quote }}
            {{- end }}
          {{- with $node.envFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          volumeMounts:
            - name: plugin-dir
              mountPath: /csi
          resources:
            {{- toYaml (default (dict "requests" (dict "cpu" "10m" "memory" "32Mi") "limits" (dict "memory" "32Mi")) $sidecar.resources) | nindent 12 }}
          {{- with $sidecar.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          terminationMessagePolicy: FallbackToLogsOnError
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
