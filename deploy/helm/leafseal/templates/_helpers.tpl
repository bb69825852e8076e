{{/* Names, labels, and the settings that the chart derives. */}}

{{- define "leafseal.name" -}}
{{- if contains "leafseal" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-leafseal" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "leafseal.selector" -}}
app.kubernetes.io/name: leafseal
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: engine
{{- end -}}

{{- define "leafseal.labels" -}}
{{ include "leafseal.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "leafseal.metadata" -}}
name: {{ include "leafseal.name" . }}
namespace: {{ .Release.Namespace }}
labels: {{- include "leafseal.labels" . | nindent 2 }}
{{- end -}}

{{- define "leafseal.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The settings that follow from the pod: YAML of sections and keys. */}}
{{- define "leafseal.ownSettings" -}}
server:
  address: 0.0.0.0:3443
  certificate: /etc/leafseal/tls/tls.crt
  private_key: /etc/leafseal/tls/tls.key
  client_authorities: /etc/leafseal/client-authorities/ca.pem
  drain_delay: {{ .Values.drain.delaySeconds }}s
  drain_timeout: {{ .Values.drain.timeoutSeconds }}s
  # All engines, also those that are not ready: a pod has no disk that remembers the newest state of the keystore, so it asks them.
  peers: ["{{ include "leafseal.name" . }}-operator.{{ .Release.Namespace }}.svc:3444"]
operator:
  address: 0.0.0.0:3444
api:
  address: {{ if .Values.api.enabled }}0.0.0.0:8443{{ else }}"off"{{ end }}
  certificate: /etc/leafseal/tls/tls.crt
  private_key: /etc/leafseal/tls/tls.key
keystore:
  url: {{ .Values.store.url }}
  authorities: /etc/leafseal/postgresql/ca.crt
  {{- if eq .Values.store.authentication "certificate" }}
  certificate: /etc/leafseal/postgresql/tls.crt
  private_key: /etc/leafseal/postgresql/tls.key
  {{- else }}
  password_file: /etc/leafseal/postgresql/password
  {{- end }}
  root_key_file: /etc/leafseal/root-key/root.key
{{- end -}}

{{/* A key of leafseal.toml. JSON's strings, flags and lists are TOML's too; a number of the values may be a float. */}}
{{- define "leafseal.key" -}}
{{ .key }} = {{ if kindIs "float64" .value }}{{ int64 .value }}{{ else }}{{ toJson .value }}{{ end }}
{{- end -}}

{{- define "leafseal.toml" -}}
{{- $own := include "leafseal.ownSettings" . | fromYaml -}}
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
{{ include "leafseal.key" (dict "key" $key "value" $value) }}
{{- end }}
{{ end }}
{{- end -}}

{{/* The names of the engine's certificate: those of its Service first. */}}
{{- define "leafseal.names" -}}
{{- $name := include "leafseal.name" . -}}
{{- $service := printf "%s.%s" $name .Release.Namespace -}}
{{- concat (list (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service) $service $name) .Values.certificate.names | toYaml -}}
{{- end -}}
