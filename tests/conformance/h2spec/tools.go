//go:build tools

// Package conformance pins h2spec, the public conformance tool for HTTP/2, and what it is built of.
package conformance

import _ "github.com/summerwind/h2spec/cmd/h2spec"
