"""Charts that generate passwords and certificates, built like the public ones.

A library chart looks for a live Secret first and generates otherwise; pod templates carry
checksums of rendered templates; one generated value stands in several objects; a signed
certificate stands beside its CA; a subchart shares a global password with its parent.
"""

from __future__ import annotations

_LIBRARY = """\
{{- define "common.draw" -}}
{{- $context := index . 0 -}}
{{- $name := printf "%s-%s" $context.Release.Name (index . 1) -}}
{{- $live := lookup "v1" "Secret" $context.Release.Namespace $name -}}
{{- if and $live (hasKey (default dict $live.data) (index . 2)) -}}
{{- index $live.data (index . 2) | quote -}}
{{- else if index . 3 -}}
{{- index . 3 | toString | b64enc | quote -}}
{{- else -}}
{{- randAlphaNum 16 | b64enc | quote -}}
{{- end -}}
{{- end -}}
{{- define "common.checksum" -}}
{{- $context := index . 0 -}}
{{- include (print $context.Template.BasePath "/" (index . 1)) $context | sha256sum -}}
{{- end -}}
{{- define "common.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
"""
_SECRETS = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-postgresql
  labels: {{- include "common.labels" . | nindent 4 }}
type: Opaque
data:
  {{- $given := .Values.auth.postgresPassword }}
  postgres-password: {{ list . "postgresql" "postgres-password" $given | include "common.draw" }}
  {{- if .Values.auth.replication }}
  replication-password: {{ list . "postgresql" "replication-password" "" | include "common.draw" }}
  {{- end }}
"""
_BINDING = """\
{{- $password := randAlphaNum 20 }}
{{- $host := printf "%s-postgresql.%s.svc" .Release.Name .Values.domain }}
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-app"}
stringData:
  password: {{ $password | quote }}
  uri: "postgresql://app:{{ $password }}@{{ $host }}:5432/app"
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-app"}
data:
  jdbc: "jdbc:postgresql://{{ $host }}/app?user=app&password={{ $password }}"
  encoded: {{ $password | b64enc }}
  init.sql: |
    CREATE ROLE app LOGIN PASSWORD '{{ $password }}';
    CREATE DATABASE app OWNER app;
"""
_TLS = """\
{{- $ca := genCA "postgresql-ca" 365 }}
{{- $cert := genSignedCert (printf "%s-postgresql" .Release.Name) nil (list "postgresql") 365 $ca }}
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-crt"}
type: kubernetes.io/tls
data:
  tls.crt: {{ $cert.Cert | b64enc }}
  tls.key: {{ $cert.Key | b64enc }}
  ca.crt: {{ $ca.Cert | b64enc }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-ca"}
data:
  ca.crt: |-
    {{- $ca.Cert | nindent 4 }}
"""
_STATEFUL_SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .Release.Name }}-postgresql
  labels: {{- include "common.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas }}
  serviceName: postgresql
  selector: {matchLabels: {app: postgresql}}
  template:
    metadata:
      labels: {app: postgresql}
      annotations:
        checksum/secrets: {{ include (print $.Template.BasePath "/secrets.yaml") . | sha256sum }}
        checksum/app: {{ include (print $.Template.BasePath "/app.yaml") . | sha1sum }}
        checksum/configuration: {{ list . "configuration.yaml" | include "common.checksum" }}
    spec:
      containers:
        - name: postgresql
          image: registry.invalid/postgresql:{{ .Values.tag }}
          envFrom: [{secretRef: {name: "{{ .Release.Name }}-postgresql"}}]
"""
_CONFIGURATION = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-postgresql
data:
  postgresql.conf: |
    max_connections = {{ .Values.connections }}
"""
_POSTGRESQL_VALUES = """\
replicas: 0
tag: "17"
connections: 100
domain: default
auth: {postgresPassword: "", replication: false}
"""
_REDIS = """\
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-redis"}
stringData:
  redis-password: {{ .Values.password | default (randAlphaNum 10) | quote }}
  users.acl: "user default on >{{ randAlphaNum 12 }} ~* +@all"
  metrics: {{ htpasswd "metrics" "fixed" | quote }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}-redis"}
data:
  run-id: {{ uuidv4 }}
  redis.conf: "maxmemory {{ .Values.memory }}"
---
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-{{ randAlpha 5 | lower }}"}
stringData: {token: {{ randAlphaNum 10 | quote }}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}-redis"}
spec:
  replicas: 0
  selector: {matchLabels: {app: redis}}
  template:
    metadata:
      labels: {app: redis}
      annotations: {rollme: {{ randAlphaNum 5 | quote }}}
    spec:
      containers:
        - name: redis
          image: registry.invalid/redis
          env: [{name: SEED, value: {{ randAlphaNum 8 | quote }}}]
"""
_WORDPRESS = """\
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-wordpress"}
data:
  {{- $given := .Values.password }}
  wordpress-password: {{ list . "wordpress" "wordpress-password" $given | include "common.draw" }}
"""
_WORDPRESS_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}-wordpress"}
spec:
  replicas: 0
  selector: {matchLabels: {app: wordpress}}
  template:
    metadata:
      labels: {app: wordpress}
      annotations:
        checksum/secrets: {{ include (print $.Template.BasePath "/secrets.yaml") . | sha256sum }}
    spec:
      containers:
        - name: wordpress
          image: registry.invalid/wordpress
          env:
            - name: WORDPRESS_DATABASE_PASSWORD
              valueFrom:
                secretKeyRef: {name: "{{ .Release.Name }}-mariadb", key: mariadb-password}
"""
_ONCE = """\
{{- define "mariadb.password" -}}
{{- if not .Values.global.databasePassword -}}
{{- $_ := set .Values.global "databasePassword" (randAlphaNum 14) -}}
{{- end -}}
{{- .Values.global.databasePassword -}}
{{- end -}}
"""
_MARIADB = """\
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-mariadb"}
data:
  mariadb-password: {{ include "mariadb.password" . | b64enc }}
  mariadb-root-password: {{ list . "mariadb" "mariadb-root-password" "" | include "common.draw" }}
"""
_MARIADB_SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: "{{ .Release.Name }}-mariadb"}
spec:
  replicas: 0
  serviceName: mariadb
  selector: {matchLabels: {app: mariadb}}
  template:
    metadata:
      labels: {app: mariadb}
      annotations:
        checksum/secret: {{ include (print $.Template.BasePath "/secrets.yaml") . | sha256sum }}
    spec:
      containers: [{name: mariadb, image: registry.invalid/mariadb}]
"""
_EXTERNAL = """\
apiVersion: v1
kind: Secret
metadata: {name: "{{ .Release.Name }}-database"}
stringData: {url: "mysql://wp:{{ include "mariadb.password" . }}@{{ .Release.Name }}-mariadb/wp"}
"""


def postgresql(*, version: str = "1.0.0", values: str = "") -> dict[str, str]:
    """A database: passwords by the library, a binding, certificates, checksums."""
    templates = {
        "secrets.yaml": _SECRETS,
        "app.yaml": _BINDING,
        "tls.yaml": _TLS,
        "configuration.yaml": _CONFIGURATION,
        "statefulset.yaml": _STATEFUL_SET,
    }
    return {
        **_chart("", "postgresql", version, templates, values or _POSTGRESQL_VALUES),
        **_library(""),
    }


def redis(*, memory: str = "64mb") -> dict[str, str]:
    """A cache: plain texts, a salted hash, and much that no Secret keeps."""
    return _chart("", "redis", "1.0.0", {"all.yaml": _REDIS}, f"memory: {memory}\npassword: ''\n")


def wordpress(*, version: str = "1.0.0", password: str = "") -> dict[str, str]:
    """A site with a database in a subchart; both know the database's generated password."""
    own = {"secrets.yaml": _WORDPRESS, "deployment.yaml": _WORDPRESS_DEPLOYMENT}
    inner = {
        "_once.tpl": _ONCE,
        "secrets.yaml": _MARIADB,
        "statefulset.yaml": _MARIADB_SET,
        "url.yaml": _EXTERNAL,
    }
    values = f"password: '{password}'\nglobal: {{databasePassword: ''}}\n"
    return {
        **_chart("", "wordpress", version, own, values),
        **_chart("charts/mariadb/", "mariadb", "1.0.0", inner, "global: {}\n"),
        **_library(""),
    }


def _library(below: str) -> dict[str, str]:
    more = "type: library\n"
    return _chart(f"{below}charts/common/", "common", "1.0.0", {"_all.tpl": _LIBRARY}, "", more)


def _chart(
    below: str, name: str, version: str, templates: dict[str, str], values: str, more: str = ""
) -> dict[str, str]:
    head = f"apiVersion: v2\nname: {name}\nversion: {version}\n{more}"
    files = {f"templates/{file}": text for file, text in templates.items()}
    return {
        f"{below}{file}": text
        for file, text in {"Chart.yaml": head, "values.yaml": values, **files}.items()
    }
