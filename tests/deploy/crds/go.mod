module crds

go 1.25.0

// Only their files are used: the definitions of the custom resources in the chart.
require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
