//go:build tools

// Package tools names the command that stores a local cluster's objects, so
// that go.mod and go.sum pin every module it needs.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
