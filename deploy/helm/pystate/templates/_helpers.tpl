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
