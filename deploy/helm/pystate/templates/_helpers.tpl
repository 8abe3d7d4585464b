{{- define "pystate.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "pystate.labels" -}}
{{ include "pystate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "pystate.selector" -}}
app.kubernetes.io/name: pystate
app.kubernetes.io/instance: {{ include "pystate.name" . }}
app.kubernetes.io/component: job-manager
{{- end -}}

{{- define "pystate.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}

{{- define "pystate.claim" -}}
{{ .Values.shared.existingClaim | default (printf "%s-shared" (include "pystate.name" .)) }}
{{- end -}}

{{- define "pystate.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "pystate.secretsContainer" -}}
# a Secret's files can be read by the group of the pod; the job manager takes those alone that nobody else reads
- name: secrets
  image: {{ include "pystate.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command:
    - /bin/sh
    - -c
    - umask 077; cp /secrets/rest/token /run/pystate/rest-token; for file in /secrets/tls/*; do [ ! -f "$file" ] || cp "$file" /run/pystate/; done
  securityContext: &container
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 64Mi}
  volumeMounts:
    - {name: run, mountPath: /run/pystate}
    - {name: rest-token, mountPath: /secrets/rest, readOnly: true}
    {{- if .Values.rest.tlsSecret }}
    - {name: tls, mountPath: /secrets/tls, readOnly: true}
    {{- end }}
{{- end -}}

{{- define "pystate.secretVolumes" -}}
# read by its owner alone: 256 is 0400
- name: rest-token
  secret: {secretName: {{ .Values.rest.tokenSecret }}, defaultMode: 256}
{{- if .Values.rest.tlsSecret }}
- name: tls
  secret: {secretName: {{ .Values.rest.tlsSecret }}, defaultMode: 256}
{{- end }}
{{- end -}}

{{- define "pystate.operatorSelector" -}}
app.kubernetes.io/name: pystate
app.kubernetes.io/instance: {{ include "pystate.name" . }}
app.kubernetes.io/component: operator
{{- end -}}
