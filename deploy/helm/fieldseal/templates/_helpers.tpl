{{/* Names, labels, and the settings that the chart derives. */}}

{{- define "fieldseal.name" -}}
{{- if contains "fieldseal" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-fieldseal" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "fieldseal.selector" -}}
app.kubernetes.io/name: fieldseal
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: engine
{{- end -}}

{{- define "fieldseal.labels" -}}
{{ include "fieldseal.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "fieldseal.metadata" -}}
name: {{ include "fieldseal.name" . }}
namespace: {{ .Release.Namespace }}
labels: {{- include "fieldseal.labels" . | nindent 2 }}
{{- end -}}

{{- define "fieldseal.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The settings that follow from the pod: YAML of sections and keys. */}}
{{- define "fieldseal.ownSettings" -}}
server:
  address: 0.0.0.0:3443
  certificate: /etc/fieldseal/tls/tls.crt
  private_key: /etc/fieldseal/tls/tls.key
  client_authorities: /etc/fieldseal/client-authorities/ca.pem
  drain_delay: {{ .Values.drain.delaySeconds }}s
  drain_timeout: {{ .Values.drain.timeoutSeconds }}s
operator:
  address: 0.0.0.0:3444
api:
  address: {{ if .Values.api.enabled }}0.0.0.0:8443{{ else }}"off"{{ end }}
  certificate: /etc/fieldseal/tls/tls.crt
  private_key: /etc/fieldseal/tls/tls.key
keystore:
  url: {{ .Values.store.url }}
  authorities: /etc/fieldseal/postgresql/ca.crt
  {{- if eq .Values.store.authentication "certificate" }}
  certificate: /etc/fieldseal/postgresql/tls.crt
  private_key: /etc/fieldseal/postgresql/tls.key
  {{- else }}
  password_file: /etc/fieldseal/postgresql/password
  {{- end }}
  root_key_file: /etc/fieldseal/root-key/root.key
{{- end -}}

{{/* A key of fieldseal.toml. JSON's strings, flags and lists are TOML's too; a number of the values may be a float. */}}
{{- define "fieldseal.key" -}}
{{ .key }} = {{ if kindIs "float64" .value }}{{ int64 .value }}{{ else }}{{ toJson .value }}{{ end }}
{{- end -}}

{{- define "fieldseal.toml" -}}
{{- $own := include "fieldseal.ownSettings" . | fromYaml -}}
{{- $all := deepCopy .Values.settings -}}
{{- if hasKey (get $all "keystore" | default dict) "path" -}}
{{- fail "settings.keystore.path must not be set: engines use the database of store.url" -}}
{{- end -}}
{{- range $section, $keys := $own -}}
{{- range $key, $value := $keys -}}
{{- if hasKey (get $all $section | default dict) $key -}}
{{- fail (printf "settings.%s.%s is set by the chart: use its other values" $section $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $section, $keys := mustMergeOverwrite $all $own }}
[{{ $section }}]
{{- range $key, $value := $keys }}
{{ include "fieldseal.key" (dict "key" $key "value" $value) }}
{{- end }}
{{ end }}
{{- end -}}

{{/* The names of the engine's certificate: those of its Service first. */}}
{{- define "fieldseal.names" -}}
{{- $name := include "fieldseal.name" . -}}
{{- $service := printf "%s.%s" $name .Release.Namespace -}}
{{- concat (list (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service) $service $name) .Values.certificate.names | toYaml -}}
{{- end -}}
