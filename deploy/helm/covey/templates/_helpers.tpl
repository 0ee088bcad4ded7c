{{/* Names. A broker is called as its pod, in at most 63 characters with the number. */}}
{{- define "covey.fullname" -}}
{{- if contains "covey" .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-covey" .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "covey.headless" -}}
{{ include "covey.fullname" . }}-brokers
{{- end -}}

{{- define "covey.configSecret" -}}
{{- .Values.existingSecret | default (printf "%s-config" (include "covey.fullname" .)) -}}
{{- end -}}

{{- define "covey.selector" -}}
app.kubernetes.io/name: covey
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "covey.labels" -}}
{{ include "covey.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* Links as a list of ends and priority: those given, or a ring whose last link is in reserve. */}}
{{- define "covey.links" -}}
{{- $links := .Values.links -}}
{{- if and (not $links) (gt (int .Values.replicas) 1) -}}
{{- range $number := untilStep 1 (int .Values.replicas) 1 -}}
{{- $links = append $links (dict "ends" (list (sub $number 1) $number)) -}}
{{- end -}}
{{- if gt (int .Values.replicas) 2 -}}
{{- $links = append $links (dict "ends" (list 0 (sub (int .Values.replicas) 1)) "priority" 2) -}}
{{- end -}}
{{- end -}}
{{- dict "links" $links | toJson -}}
{{- end -}}

{{/* Settings as TOML, a line each: tables by dots. Helm reads all numbers as floats, and brokers want integers as such. */}}
{{- define "covey.settings" -}}
{{- $prefix := .prefix -}}
{{- range $key, $value := .values }}
{{- if kindIs "map" $value }}
{{- include "covey.settings" (dict "prefix" (printf "%s%s." $prefix $key) "values" $value) }}
{{- else if kindIs "string" $value }}
{{ $prefix }}{{ $key }} = {{ $value | quote }}
{{- else if and (kindIs "float64" $value) (eq (floor $value) $value) }}
{{ $prefix }}{{ $key }} = {{ int64 $value }}
{{- else }}
{{ $prefix }}{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The file of one broker; takes root and number. */}}
{{- define "covey.config" -}}
{{- $root := .root -}}
{{- $number := int .number -}}
{{- $name := include "covey.fullname" $root -}}
{{- $headless := include "covey.headless" $root -}}
name = {{ printf "%s-%d" $name $number | quote }}
host = "0.0.0.0"
port = 7400
{{- if $root.Values.persistence.enabled }}
data_dir = "/var/lib/covey/data"
max_store_bytes = {{ int64 $root.Values.persistence.maxStoreBytes }}
{{- end }}
{{- include "covey.settings" (dict "prefix" "" "values" $root.Values.settings) }}

[admin]
host = "0.0.0.0"
port = 7401
token = {{ required "auth.adminTokenHash is missing (hint: covey token), or existingSecret" $root.Values.auth.adminTokenHash | quote }}
{{- with $root.Values.auth.viewTokenHash }}
view_token = {{ . | quote }}
{{- end }}
tls = {{ ne $root.Values.tls.secretName "" }}
hosts = [{{ printf ".%s" $headless | quote }}, {{ printf ".%s.%s" $headless $root.Release.Namespace | quote }}, {{ printf ".%s.%s.svc" $headless $root.Release.Namespace | quote }}, {{ printf ".%s.%s.svc.cluster.local" $headless $root.Release.Namespace | quote }}]

{{ if $root.Values.tls.secretName -}}
[tls]
certificate = "/etc/covey-tls/tls.crt"
key = "/etc/covey-tls/tls.key"
authority = "/etc/covey-tls/ca.crt"
{{ else -}}
[neighbours]
token = {{ required "auth.neighbourToken is missing (hint: covey token), or tls.secretName, or existingSecret" $root.Values.auth.neighbourToken | quote }}
{{ end }}
{{- range $link := (include "covey.links" $root | fromJson).links }}
{{- $ends := list (int (first $link.ends)) (int (last $link.ends)) }}
{{- if or (ge (first $ends) (int $root.Values.replicas)) (ge (last $ends) (int $root.Values.replicas)) }}
{{- fail (printf "links: there is no broker %d among %d" (max (first $ends) (last $ends)) (int $root.Values.replicas)) }}
{{- end }}
{{- if has $number $ends }}
{{- $other := ternary (last $ends) (first $ends) (eq $number (first $ends)) }}

[[links]]
name = {{ printf "%s-%d" $name $other | quote }}
priority = {{ int ($link.priority | default 1) }}
{{- if gt $number $other }}
address = {{ printf "%s-%d.%s:7400" $name $other $headless | quote }}
{{- end }}
{{- end }}
{{- end }}
{{ with $root.Values.extraConfig }}
{{ . }}
{{ end }}
{{- end -}}
