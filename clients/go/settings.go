package leafseal

import (
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPort = 3443
	pemSizeMax  = 1 << 20
	sizeMax     = 1 << 30
	durationMax = (1<<31 - 1) * time.Millisecond
)

// PEM is a certificate or key: a file, which is read again for each connection, or its content.
type PEM struct {
	path    string
	content []byte
}

// File names a PEM file.
func File(path string) PEM {
	return PEM{path: path}
}

// Content is the content of a PEM file.
func Content(pem []byte) PEM {
	return PEM{content: append([]byte(nil), pem...)}
}

func (p PEM) read(name string) ([]byte, error) {
	if p.path == "" {
		return p.content, nil
	}
	info, err := os.Stat(p.path)
	if err == nil && info.Size() > pemSizeMax {
		return nil, newError(CodeTLSFailed, RetryNever, nil, "%s: the file %s is larger than %d bytes", name, p.path, pemSizeMax)
	}
	var bytes []byte
	if err == nil {
		bytes, err = os.ReadFile(p.path)
	}
	if err != nil {
		return nil, newError(CodeTLSFailed, RetryNever, err, "%s: cannot read the file %s", name, p.path)
	}
	return bytes, nil
}

// Settings of a client. The first four are required; zero values stand for the defaults.
type Settings struct {
	// Addresses has HOST:PORT of one or more engines that serve the same apps. The port defaults to 3443. The
	// records of a host name are tried one after another.
	Addresses []string
	// CA is the authority that signs the engines' certificates.
	CA PEM
	// Certificate is the client's, with intermediate certificates if there are any.
	Certificate PEM
	// Key is the key of the certificate, unencrypted.
	Key PEM
	// App is the app of calls that name none.
	App string
	// ServerName is the name in the engines' certificates. Default: the host of each address.
	ServerName string
	// Timeout limits a call, retries included, beside its context. It is also sent to the engine. Default 30 s.
	Timeout time.Duration
	// ConnectTimeout limits a connection attempt, TLS included. Default 5 s.
	ConnectTimeout time.Duration
	// ConnectionsMax is the maximum of open connections, at least 1. Another one is opened while all are busy. Default 2.
	ConnectionsMax int
	// RequestsInFlightMax is the maximum of requests in flight on each connection. Default 128; the engine stops reading at 256.
	RequestsInFlightMax int
	// BytesInFlightMax is the size of requests in flight, in bytes, at which further calls wait. Default 128 MiB.
	BytesInFlightMax int64
	// RequestsWaitingMax is the maximum of calls that wait for a connection or a free slot on one; further ones fail with busy. Default 16,384.
	RequestsWaitingMax int
	// BytesWaitingMax is the maximum size of requests that wait, in bytes; further calls fail with busy, unless none waits. Default 256 MiB.
	BytesWaitingMax int64
	// RequestSizeMax is the maximum size of a request in bytes. Default and maximum 1 GiB.
	RequestSizeMax int
	// AnswerSizeMax is the maximum size of an answer in bytes. Default and maximum 1 GiB.
	AnswerSizeMax int
	// RetriesMax is the maximum of retries of a call that no engine executes. Default 4; -1 disables retries.
	RetriesMax int
	// BackoffMin is the first pause after a failed connection and before a retry; it doubles each time. Default 50 ms.
	BackoffMin time.Duration
	// BackoffMax is the longest such pause. Default 5 s.
	BackoffMax time.Duration
	// AbandonedTimeout is how long a cancelled request may stay unanswered before its connection counts as dead. Default 30 s.
	AbandonedTimeout time.Duration
	// OnRetry is called before a call is retried because of an error. It must not block.
	OnRetry func(method string, err *Error)
	// OnConnection is called when a connection was opened (nil), could not be opened, or ended. It must not block.
	OnConnection func(address string, isOpen bool, err *Error)
}

func (s Settings) checked() (Settings, []*address, error) {
	invalid := func(message string) (Settings, []*address, error) {
		return Settings{}, nil, newError(CodeInvalidSettings, RetryNever, nil, "%s", message)
	}
	if len(s.Addresses) == 0 {
		return invalid("Addresses: expected at least one HOST:PORT")
	}
	var addresses []*address
	for _, text := range s.Addresses {
		parsed := parseAddress(text)
		if parsed == nil {
			return invalid("Addresses: expected HOST:PORT, such as engine.internal:3443")
		}
		addresses = append(addresses, parsed)
	}
	for name, pem := range map[string]PEM{"CA": s.CA, "Certificate": s.Certificate, "Key": s.Key} {
		if pem.path == "" && len(pem.content) == 0 {
			return invalid(name + ": expected a PEM file or its content")
		}
	}
	for _, duration := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"Timeout", &s.Timeout, ruleRequestTimeout}, {"ConnectTimeout", &s.ConnectTimeout, ruleConnectTimeout},
		{"BackoffMin", &s.BackoffMin, ruleBackoffMin}, {"BackoffMax", &s.BackoffMax, ruleBackoffMax},
		{"AbandonedTimeout", &s.AbandonedTimeout, ruleAbandonedTimeout},
	} {
		if *duration.value == 0 {
			*duration.value = duration.zero
		}
		if *duration.value < time.Millisecond || *duration.value > durationMax {
			return invalid(duration.name + " must be from 1 ms to " + durationMax.String())
		}
	}
	if s.BackoffMax < s.BackoffMin {
		return invalid("BackoffMax must be at least BackoffMin")
	}
	if name := s.checkNumbers(); name != "" {
		return invalid(name + " is out of range")
	}
	return s, addresses, nil
}

// checkNumbers sets defaults, and returns the name of a number that is out of range.
func (s *Settings) checkNumbers() string {
	if s.RetriesMax == 0 {
		s.RetriesMax = ruleRetriesMax
	}
	if s.RetriesMax < -1 || s.RetriesMax > 1000 {
		return "RetriesMax"
	}
	for _, number := range []struct {
		name      string
		value     *int
		zero, max int
	}{
		{"ConnectionsMax", &s.ConnectionsMax, ruleConnectionsMax, 1024}, {"RequestsInFlightMax", &s.RequestsInFlightMax, ruleRequestsInFlightMax, 65536},
		{"RequestsWaitingMax", &s.RequestsWaitingMax, 16384, 1 << 30}, {"RequestSizeMax", &s.RequestSizeMax, sizeMax, sizeMax},
		{"AnswerSizeMax", &s.AnswerSizeMax, sizeMax, sizeMax},
	} {
		if *number.value == 0 {
			*number.value = number.zero
		}
		if *number.value < 1 || *number.value > number.max {
			return number.name
		}
	}
	for _, number := range []struct {
		name  string
		value *int64
		zero  int64
	}{{"BytesInFlightMax", &s.BytesInFlightMax, 128 << 20}, {"BytesWaitingMax", &s.BytesWaitingMax, 256 << 20}} {
		if *number.value == 0 {
			*number.value = number.zero
		}
		if *number.value < 1 {
			return number.name
		}
	}
	return ""
}

// parseAddress parses HOST, HOST:PORT, [IPV6] or [IPV6]:PORT; nil if it is none of these.
func parseAddress(text string) *address {
	name, port := text, defaultPort
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		name = text[1 : len(text)-1]
	} else if strings.Contains(text, ":") {
		var digits string
		var err error
		if name, digits, err = net.SplitHostPort(text); err != nil {
			return nil
		}
		if port, err = strconv.Atoi(digits); err != nil || strings.HasPrefix(digits, "+") {
			return nil
		}
	}
	if name == "" || port < 1 || port > 65535 || strings.ContainsAny(name, " /[]\t\n") {
		return nil
	}
	return &address{name: name, port: port}
}
