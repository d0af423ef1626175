//go:build tools

// Package tools names the command that renders charts, so that go.mod and
// go.sum pin every module it needs.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
