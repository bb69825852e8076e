//go:build tools

// Package kubernetes pins the API server of Kubernetes and what it is built of.
package kubernetes

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
