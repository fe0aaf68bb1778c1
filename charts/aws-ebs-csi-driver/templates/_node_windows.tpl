{{/* The DaemonSet of Windows nodes, as containers over csi-proxy or as host processes: dict root, node, app, name. */}}
{{- define "aws-ebs-csi-driver.windowsNodes" -}}
{{- $root := .root -}}
{{- $node := .node -}}
{{- $host := $node.windowsHostProcess -}}
{{- $pluginDir := `C:\var\lib\kubelet\plugins\ebs.csi.aws.com` -}}
{{- $hostSocket := `unix://C:\\var\\lib\\kubelet\\plugins\\ebs.csi.aws.com\\csi.sock` -}}
{{- $pipes := list "disk" "volume" "filesystem" -}}
{{- $small := dict "requests" (dict "cpu" "10m" "memory" "150Mi") "limits" (dict "memory" "150Mi") -}}
{{- include "aws-ebs-csi-driver.daemonSetHead" . }}
    spec:
      {{- include "aws-ebs-csi-driver.nodePod" (dict "root" $root "node" $node "os" "windows") | nindent 6 }}
      {{- if $host }}
      securityContext:
        windowsOptions:
          hostProcess: true
          runAsUserName: NT AUTHORITY\SYSTEM
      hostNetwork: true
      {{- with $node.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      containers:
        - name: ebs-plugin
          image: {{ include "aws-ebs-csi-driver.fullImagePath" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          {{- if $host }}
          command:
            - aws-ebs-csi-driver.exe
          {{- end }}
          args:
            - node
            - --endpoint=$(CSI_ENDPOINT)
            {{- include "aws-ebs-csi-driver.nodeArguments" . | nindent 12 }}
            {{- if $host }}
            - --windows-host-process=true
            {{- end }}
            {{- if $node.windowsFormatOverCsiProxy }}
            - --format-over-csi-proxy=true
            {{- end }}
          env:
            - name: CSI_ENDPOINT
              value: {{ ternary $hostSocket "unix:/csi/csi.sock" (not (empty $host)) }}
            {{- include "aws-ebs-csi-driver.nodeEnv" . | nindent 12 }}
          {{- with $node.envFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- /* A host process needs no mounts, which would hide directories of the host. This one only makes the kubelet create the directory of the
          socket. */}}
          volumeMounts:
            {{- if not $host }}
            - name: kubelet-dir
              mountPath: C:\var\lib\kubelet
              mountPropagation: None
            {{- end }}
            - name: plugin-dir
              mountPath: C:\csi
            {{- if not $host }}
            {{- range $pipes }}
            - name: csi-proxy-{{ . }}-pipe
              mountPath: \\.\pipe\csi-proxy-{{ . }}-v1
            {{- end }}
            {{- end }}
          {{- include "aws-ebs-csi-driver.nodeHealth" (dict "metrics" false) | nindent 10 }}
          lifecycle:
            preStop:
              exec:
                command: [{{ ternary "aws-ebs-csi-driver.exe" "/aws-ebs-csi-driver.exe" (not (empty $host)) }}, pre-stop-hook]
          {{- with $node.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if not $host }}
          securityContext:
            windowsOptions:
              runAsUserName: ContainerAdministrator
          {{- end }}
          terminationMessagePolicy: FallbackToLogsOnError
        {{- $sidecar := $root.Values.sidecars.nodeDriverRegistrar }}
        - name: node-driver-registrar
          {{- include "aws-ebs-csi-driver.sidecarImage" (dict "root" $root "image" $sidecar.image) | nindent 10 }}
          {{- if $host }}
          command:
            - csi-node-driver-registrar.exe
          {{- end }}
          args:
            - --csi-address=$(ADDRESS)
            - --kubelet-registration-path=$(DRIVER_REG_SOCK_PATH)
            - --http-endpoint=0.0.0.0:{{ $sidecar.healthPort | default 9809 }}
            {{- if $host }}
            - --plugin-registration-path=$(PLUGIN_REG_DIR)
            {{- end }}
            - {{ include "aws-ebs-csi-driver.verbosity" (dict "root" $root "sidecar" $sidecar) }}
          env:
            - name: ADDRESS
              value: {{ ternary $hostSocket "unix:/csi/csi.sock" (not (empty $host)) }}
            - name: DRIVER_REG_SOCK_PATH
              value: {{ $pluginDir }}\csi.sock
            {{- if $host }}
            - name: PLUGIN_REG_DIR
              value: C:\\var\\lib\\kubelet\\plugins_registry\\
            {{- end }}
            {{- with include "aws-ebs-csi-driver.http-proxy" $root }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with $sidecar.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- if not $host }}
          volumeMounts:
            - name: plugin-dir
              mountPath: C:\csi
            - name: registration-dir
              mountPath: C:\registration
            - name: probe-dir
              mountPath: {{ $pluginDir }}
          {{- end }}
          ports:
            - name: healthz-ndr
              containerPort: {{ $sidecar.healthPort | default 9809 }}
              protocol: TCP
          {{- with $sidecar.livenessProbe }}
          {{- include "aws-ebs-csi-driver.registrarProbe" . | nindent 10 }}
          {{- end }}
          resources:
            {{- toYaml (default $small $sidecar.resources) | nindent 12 }}
          terminationMessagePolicy: FallbackToLogsOnError
        {{- if include "aws-ebs-csi-driver.hasLivenessProbe" $root }}
        {{- $sidecar = $root.Values.sidecars.livenessProbe }}
        - name: liveness-probe
          {{- include "aws-ebs-csi-driver.livenessProbeImage" $root | nindent 10 }}
          {{- if $host }}
          command:
            - livenessprobe.exe
          {{- end }}
          args:
            - --csi-address={{ ternary $hostSocket "unix:/csi/csi.sock" (not (empty $host)) }}
          {{- if not $host }}
          volumeMounts:
            - name: plugin-dir
              mountPath: C:\csi
          {{- end }}
          resources:
            {{- toYaml (default $small $sidecar.resources) | nindent 12 }}
          terminationMessagePolicy: FallbackToLogsOnError
        {{- end }}
      volumes:
        {{- if not $host }}
        - name: kubelet-dir
          hostPath:
            path: C:\var\lib\kubelet
            type: Directory
        {{- end }}
        - name: plugin-dir
          hostPath:
            path: {{ $pluginDir }}
            type: DirectoryOrCreate
        {{- if not $host }}
        - name: registration-dir
          hostPath:
            path: C:\var\lib\kubelet\plugins_registry
            type: Directory
        {{- range $pipes }}
        - name: csi-proxy-{{ . }}-pipe
          hostPath:
            path: \\.\pipe\csi-proxy-{{ . }}-v1
            type: ""
        {{- end }}
        - {{- toYaml (mergeOverwrite (dict "name" "probe-dir") (deepCopy (default dict $node.probeDirVolume))) | nindent 10 }}
        {{- end }}
{{- end -}}
