package leafseal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

const (
	alpn = "leafseal/1"
	// resolvedTime is how long the records of a host name are used; after a failure they are looked up earlier.
	resolvedTime    = 30 * time.Second
	resolvedTimeMin = time.Second
	keepAlive       = 30 * time.Second
)

// ejectable can fail: an engine, or the look-up of a host name.
type ejectable struct {
	failures     int
	ejectedUntil time.Time
	lastError    *Error
}

// host is a configured address.
type host struct {
	ejectable
	name        string
	port        int
	engines     []*engine
	isResolving bool
	isStale     bool
	resolvedAt  time.Time
}

// engine is one record of a host.
type engine struct {
	ejectable
	host      *host
	address   netip.AddrPort
	conns     []*conn
	isDialing bool
	// isGone: the host name no longer resolves to it.
	isGone bool
	// avoidedUntil: used only if no other engine is available before this time.
	avoidedUntil time.Time
	// refusedUntil is the same after an answer of unavailable; refusals counts those without a success between them.
	refusedUntil time.Time
	refusals     int
}

func (e *engine) usable() int {
	count := 0
	for _, conn := range e.conns {
		if conn.err == nil && !conn.isLeaving {
			count++
		}
	}
	return count
}

func (e *engine) isLastResort(now time.Time) bool {
	return e.avoidedUntil.After(now) || e.refusedUntil.After(now)
}

func (c *Client) engines() []*engine {
	var all []*engine
	for _, host := range c.hosts {
		all = append(all, host.engines...)
	}
	return all
}

// pick returns the open connection for a request, or nil: that with the fewest requests in flight, if possible to an engine that has not
// refused this one and does not refuse others. While there is no such connection, or all are busy, another is opened.
func (c *Client) pick(request *request) *conn {
	now := time.Now()
	rank := func(conn *conn) int {
		if conn.engine == request.refusedBy || conn.engine.refusedUntil.After(now) {
			return conn.inFlight + c.settings.RequestsInFlightMax
		}
		return conn.inFlight
	}
	var best *conn
	for _, host := range c.hosts {
		for _, engine := range host.engines {
			for _, conn := range engine.conns {
				if conn.takesRequests() && (best == nil || rank(conn) < rank(best)) {
					best = conn
				}
			}
		}
	}
	if best == nil || rank(best) > 0 {
		c.grow()
	}
	// Another engine may be about to take requests; the wait ends with refusedUntil.
	if best != nil && best.engine.refusedUntil.After(now) && c.isHopeful(false) {
		return nil
	}
	return best
}

// isHopeful returns whether a connection is open or being opened; engines that refuse requests count only with all.
func (c *Client) isHopeful(all bool) bool {
	now := time.Now()
	for _, host := range c.hosts {
		if host.isResolving && len(host.engines) == 0 {
			return true
		}
		for _, engine := range host.engines {
			if (all || !engine.refusedUntil.After(now)) && (engine.isDialing || engine.usable() > 0) {
				return true
			}
		}
	}
	return false
}

// retryIn returns the time until an ejected address is tried again; 0 if one may be tried now.
func (c *Client) retryIn() time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, host := range c.hosts {
		if len(host.engines) == 0 {
			least = min(least, time.Until(host.ejectedUntil))
		}
		for _, engine := range host.engines {
			least = min(least, time.Until(engine.ejectedUntil))
		}
	}
	return max(0, least)
}

// poolError returns why no connection is available. A network error is preferred to one of certificates, because it may pass.
func (c *Client) poolError() *Error {
	var best *Error
	note := func(err *Error) {
		if err != nil && (best == nil || best.Code == CodeTLSFailed) {
			best = err
		}
	}
	for _, engine := range c.engines() {
		note(engine.lastError)
	}
	for _, host := range c.hosts {
		note(host.lastError)
	}
	if best == nil {
		best = newError(CodeConnectFailed, RetryElsewhere, nil, "no engine is available")
	}
	return best
}

// grow opens a connection to the engine with the fewest, if one may get another.
func (c *Client) grow() {
	if c.isPoolClosed {
		return
	}
	now := time.Now()
	for _, host := range c.hosts {
		c.resolve(host, now)
	}
	engines := c.engines()
	rank := func(engine *engine) int {
		if engine.isLastResort(now) {
			return engine.usable() + c.settings.ConnectionsMax
		}
		return engine.usable()
	}
	best := -1
	for step := range engines {
		index := (c.turn + step) % len(engines)
		engine := engines[index]
		most := c.settings.ConnectionsMax
		if engine.refusedUntil.After(now) {
			most = 1
		}
		may := !engine.isDialing && !engine.isGone && !engine.ejectedUntil.After(now) && engine.usable() < most
		if may && (best < 0 || rank(engine) < rank(engines[best])) {
			best = index
		}
	}
	if best < 0 {
		return
	}
	// An engine that shuts down or refuses requests accepts connections; it is a last resort.
	if engines[best].isLastResort(now) {
		for index, other := range engines {
			if index != best && (other.usable() > 0 || other.isDialing) {
				return
			}
		}
	}
	c.turn = best + 1
	engines[best].isDialing = true
	go c.dial(engines[best])
}

// resolve looks a host name up, if that is due.
func (c *Client) resolve(host *host, now time.Time) {
	age := now.Sub(host.resolvedAt)
	literal, err := netip.ParseAddr(host.name)
	isDue := age > resolvedTime && err != nil
	if host.isStale {
		isDue = len(host.engines) == 0 || (age > resolvedTimeMin && err != nil)
	}
	if !isDue || host.isResolving || host.ejectedUntil.After(now) {
		return
	}
	if err == nil {
		host.isStale = false
		host.engines = []*engine{{host: host, address: netip.AddrPortFrom(literal, uint16(host.port))}}
		return
	}
	host.isResolving = true
	go func() {
		ctx, cancel := context.WithTimeout(c.closing, c.settings.ConnectTimeout)
		defer cancel()
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host.name)
		c.locked(func() { c.resolved(host, found, err) })
	}()
}

func (c *Client) resolved(host *host, found []netip.Addr, err error) {
	host.isResolving = false
	if err != nil {
		c.eject(&host.ejectable, newError(CodeConnectFailed, RetryElsewhere, err, "%s: the host name cannot be resolved", host.name))
		c.notice(net.JoinHostPort(host.name, strconv.Itoa(host.port)), false, host.lastError)
		c.pump()
		return
	}
	host.ejectable = ejectable{}
	host.isStale = false
	host.resolvedAt = time.Now()
	known := map[netip.AddrPort]*engine{}
	for _, engine := range host.engines {
		engine.isGone = true
		known[engine.address] = engine
	}
	for _, record := range found {
		address := netip.AddrPortFrom(record.Unmap(), uint16(host.port))
		if known[address] == nil {
			known[address] = &engine{host: host, address: address}
			host.engines = append(host.engines, known[address])
		}
		known[address].isGone = false
	}
	kept := host.engines[:0]
	for _, engine := range host.engines {
		if !engine.isGone || engine.isDialing || len(engine.conns) > 0 {
			kept = append(kept, engine)
		}
	}
	host.engines = kept
	c.grow()
	c.pump()
}

func (c *Client) dial(engine *engine) {
	raw, secure, failure := c.connect(engine)
	c.locked(func() {
		engine.isDialing = false
		if failure != nil {
			c.eject(&engine.ejectable, failure)
			engine.host.isStale = true
			c.notice(engine.address.String(), false, failure)
			c.pump()
			return
		}
		conn := &conn{client: c, engine: engine, raw: raw, secure: secure, wake: make(chan struct{}, 1)}
		engine.conns = append(engine.conns, conn)
		c.notice(engine.address.String(), true, nil)
		go conn.read()
		go conn.write()
		if c.isPoolClosed {
			conn.end(newError(CodeClosed, RetryNever, nil, "the client is closed"))
		} else {
			conn.leaveAt(chainExpiry(secure.ConnectionState().VerifiedChains))
		}
		c.pump()
	})
}

// chainExpiry returns when the first certificate of the engine's verified chain expires, its authority included. If several chains were
// verified, the longest-lived one counts.
func chainExpiry(chains [][]*x509.Certificate) time.Time {
	var last time.Time
	for _, chain := range chains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
		if first.After(last) {
			last = first
		}
	}
	return last
}

func (c *Client) connect(engine *engine) (net.Conn, *tls.Conn, *Error) {
	address := engine.address.String()
	config, failure := c.tlsConfig()
	if failure != nil {
		failure.Message = address + ": " + failure.Message
		return nil, nil, failure
	}
	config.ServerName = c.settings.ServerName
	if config.ServerName == "" {
		config.ServerName = engine.host.name
	}
	ctx, cancel := context.WithTimeout(c.closing, c.settings.ConnectTimeout)
	defer cancel()
	failed := func(err error) (net.Conn, *tls.Conn, *Error) {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, nil, newError(CodeConnectFailed, RetryElsewhere, err, "%s: no connection within %v", address, c.settings.ConnectTimeout)
		}
		return nil, nil, newError(CodeConnectFailed, RetryElsewhere, err, "%s: %v", address, err)
	}
	dialer := net.Dialer{KeepAlive: keepAlive}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return failed(err)
	}
	secure := tls.Client(raw, config)
	if err = secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		if isCertificateError(err) {
			return nil, nil, newError(CodeTLSFailed, RetryNever, err, "%s: %v", address, err)
		}
		return failed(err)
	}
	if secure.ConnectionState().NegotiatedProtocol != alpn {
		raw.Close()
		return nil, nil, newError(CodeTLSFailed, RetryNever, nil, "%s: the server does not support %s; connect to the engine's RPC port", address, alpn)
	}
	return raw, secure, nil
}

// isCertificateError returns whether TLS failed, rather than the network.
func isCertificateError(err error) bool {
	var network net.Error
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	if errors.As(err, &verification) || errors.As(err, &record) || isAlert(err) {
		return true
	}
	return !errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !isEOF(err)
}

// tlsConfig reads the files again, so that renewed ones are used.
func (c *Client) tlsConfig() (*tls.Config, *Error) {
	var parts [3][]byte
	for index, pem := range []struct {
		name string
		pem  PEM
	}{{"CA", c.settings.CA}, {"Certificate", c.settings.Certificate}, {"Key", c.settings.Key}} {
		bytes, err := pem.pem.read(pem.name)
		if err != nil {
			return nil, err.(*Error)
		}
		parts[index] = bytes
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(parts[0]) {
		return nil, newError(CodeTLSFailed, RetryNever, nil, "CA: no certificate in PEM")
	}
	certificate, err := tls.X509KeyPair(parts[1], parts[2])
	if c.settings.Key.path != "" {
		clear(parts[2])
	}
	if err != nil {
		return nil, newError(CodeTLSFailed, RetryNever, nil, "the certificate and the key cannot be used: %v", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, NextProtos: []string{alpn}, ClientSessionCache: nil,
		// Whatever authorities the server names: this is the only certificate.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
	}, nil
}

// ended removes a connection.
func (c *Client) ended(engine *engine, ended *conn, err *Error) {
	for index, conn := range engine.conns {
		if conn == ended {
			engine.conns = append(engine.conns[:index], engine.conns[index+1:]...)
			break
		}
	}
	if ended.isShutdown {
		engine.avoidedUntil = time.Now().Add(c.settings.ShutdownAvoid)
	}
	if ended.hasAnswered {
		engine.failures = 0
	} else if err.Code != CodeClosed {
		// An engine that ends connections before it answers must not be reconnected to in a busy loop.
		c.eject(&engine.ejectable, err)
		engine.host.isStale = true
	}
	c.notice(engine.address.String(), false, err)
	c.pump()
}

func (c *Client) eject(place *ejectable, err *Error) {
	place.lastError = err
	place.ejectedUntil = time.Now().Add(c.backoff(place.failures))
	place.failures++
	c.attemptsFailed++
}

// refused makes an engine that answered unavailable a last resort, for as long as one that cannot be connected to is not used. The answers
// of requests that were in flight together count once.
func (c *Client) refused(engine *engine) {
	now := time.Now()
	if engine.refusedUntil.After(now) {
		return
	}
	pause := c.backoff(engine.refusals)
	engine.refusedUntil = now.Add(pause)
	engine.refusals++
	time.AfterFunc(pause, func() { c.locked(c.pump) })
	// During the pause before the retry.
	if !c.isHopeful(false) {
		c.grow()
	}
}

// backoff returns the pause after earlier failures. Jitter over its upper half, so that clients do not all return at once.
func (c *Client) backoff(failures int) time.Duration {
	pause := min(float64(c.settings.BackoffMin)*math.Pow(2, float64(min(failures, 30))), float64(c.settings.BackoffMax))
	return time.Duration(pause * (0.5 + rand.Float64()/2))
}

func (c *Client) notice(address string, isOpen bool, err *Error) {
	if notify := c.settings.OnConnection; notify != nil {
		c.effect(func() { notify(address, isOpen, err) })
	}
}
