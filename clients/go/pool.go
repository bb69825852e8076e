package leafseal

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

const (
	alpn      = "leafseal/1"
	keepAlive = 30 * time.Second
)

// address is one of the settings.
type address struct {
	name string
	port int
	// records is the number of DNS records at the last look-up.
	records int
}

func (a *address) String() string {
	return net.JoinHostPort(a.name, strconv.Itoa(a.port))
}

// place is what a connection leads to: the index of an address, and the DNS record that was connected to.
type place struct {
	address int
	record  netip.AddrPort
}

// avoidance is for how long a place is used only if there is no other: from since, until a time, or until a request that was sent later
// has succeeded.
type avoidance struct {
	since, until time.Time
	untilSuccess bool
}

// pool is the connections of a client: vectors/client/README.md has the algorithm, which every client follows. The client's mutex guards it.
type pool struct {
	addresses []*address
	// usable are the connections on which calls may begin, oldest first; open are all that have not ended.
	usable  []*conn
	open    map[*conn]struct{}
	avoided map[place]avoidance

	isDialing      bool
	dialsElsewhere bool
	nextAddress    int
	// dialFailures is the number of dials in a row of which every address failed, with the last error.
	dialFailures int
	failedUntil  time.Time
	failedError  *Error
	// stuckFailures is the number of dials in a row that missed every address that was not avoided.
	stuckFailures int
	stuckUntil    time.Time
	renewedUntil  time.Time
	// lastUnusable: a connection has become unusable since the last dial began, and whether the last one had answered.
	lastUnusable unusableState
	unusedInRow  int
}

// unusableState describes the last connection that became unusable.
type unusableState int

const (
	noneUnusable unusableState = iota
	unusableAnswered
	unusableUnanswered
)

// withdraw removes a connection from those on which calls may begin; returns false if it was removed before.
func (c *Client) withdraw(conn *conn) bool {
	index := slices.Index(c.usable, conn)
	if index >= 0 {
		c.usable = slices.Delete(c.usable, index, index+1)
		c.lastUnusable = unusableUnanswered
		if conn.hasAnswered {
			c.lastUnusable = unusableAnswered
		}
	}
	return index >= 0
}

// avoid uses a place only if there is no other, if the rules say so of an event there.
func (c *Client) avoid(place place, event, code string) {
	untilSuccess, isAvoided := avoids(event, code)
	if !isAvoided {
		return
	}
	if c.isAvoided(place) {
		untilSuccess = untilSuccess && c.avoided[place].untilSuccess
	}
	now := time.Now()
	c.avoided[place] = avoidance{since: now, until: now.Add(ruleAvoided), untilSuccess: untilSuccess}
}

// served ends the avoidance of a place that refused requests before this one was sent.
func (c *Client) served(place place, sent time.Time) {
	if avoided, found := c.avoided[place]; found && avoided.untilSuccess && !avoided.since.After(sent) {
		delete(c.avoided, place)
	}
}

func (c *Client) isAvoided(place place) bool {
	avoided, found := c.avoided[place]
	if found && !avoided.until.After(time.Now()) {
		delete(c.avoided, place)
		return false
	}
	return found
}

// isAddressAvoided returns whether all known places of an address are avoided.
func (c *Client) isAddressAvoided(index int) bool {
	count := 0
	for place := range c.avoided {
		if place.address == index && c.isAvoided(place) {
			count++
		}
	}
	return count >= max(1, c.addresses[index].records)
}

// mayDialElsewhere returns whether a new connection may reach an engine that is not avoided: at another address, or behind a balancer.
func (c *Client) mayDialElsewhere() bool {
	if c.isDialing && c.dialsElsewhere {
		return true
	}
	now := time.Now()
	if c.stuckUntil.After(now) || c.failedUntil.After(now) {
		return false
	}
	return !c.renewedUntil.After(now) || len(c.fresh(c.order())) > 0
}

// fresh returns the addresses that are not avoided.
func (c *Client) fresh(addresses []int) []int {
	return slices.DeleteFunc(slices.Clone(addresses), c.isAddressAvoided)
}

// best returns the connection for a request: to a place that is not avoided, other than the one that refused it, with the fewest requests
// in flight, the oldest; nil if there is none.
func (c *Client) best(request *request) *conn {
	var best *conn
	for _, conn := range c.usable {
		if best == nil || cmp.Or(
			cmp.Compare(boolean(c.isAvoided(conn.place)), boolean(c.isAvoided(best.place))),
			cmp.Compare(boolean(c.isFull(conn)), boolean(c.isFull(best))),
			cmp.Compare(boolean(conn == request.refusedBy), boolean(best == request.refusedBy)),
			cmp.Compare(conn.inFlight, best.inFlight),
		) < 0 {
			best = conn
		}
	}
	return best
}

func (c *Client) isFull(conn *conn) bool {
	return conn.inFlight >= c.settings.RequestsInFlightMax
}

// choose returns the connection that a request begins on, or why it must not; with neither it waits.
func (c *Client) choose(request *request) (*conn, *Error) {
	best := c.best(request)
	switch {
	case best == nil && c.failedUntil.After(time.Now()):
		return nil, c.failedError
	case best == nil:
		c.dial(false)
		return nil, nil
	case c.isAvoided(best.place) && c.mayDialElsewhere():
		c.dial(true)
		return nil, nil
	}
	if best.inFlight > 0 && len(c.usable) < c.settings.ConnectionsMax {
		c.dial(false)
	}
	if c.isFull(best) {
		return nil, nil
	}
	return best, nil
}

// order returns the addresses from the next one on; those that are avoided come last, before them those with more usable connections.
func (c *Client) order() []int {
	count := len(c.addresses)
	usable := make([]int, count)
	for _, conn := range c.usable {
		usable[conn.place.address]++
	}
	order := make([]int, count)
	for step := range order {
		order[step] = (c.nextAddress + step) % count
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(boolean(c.isAddressAvoided(a)), boolean(c.isAddressAvoided(b))),
			cmp.Compare(usable[a], usable[b]),
		)
	})
	return order
}

// dial opens a connection, unless that is under way or has failed recently. isElsewhere: not to an avoided place, if possible.
func (c *Client) dial(isElsewhere bool) {
	if c.isDialing || c.isPoolClosed || c.failedUntil.After(time.Now()) {
		return
	}
	c.isDialing, c.dialsElsewhere = true, isElsewhere
	if c.lastUnusable != noneUnusable {
		// Load that is uneven evens out as connections age; the next address in order would only hand it on.
		c.nextAddress = int(c.random()*float64(len(c.addresses))) % len(c.addresses)
	}
	if pause := c.pauseBeforeDial(); pause > 0 {
		time.AfterFunc(pause, func() { c.locked(func() { c.dialInTurn(isElsewhere) }) })
	} else {
		c.dialInTurn(isElsewhere)
	}
}

// pauseBeforeDial is longer each time while engines end connections before they answer anything: otherwise a client would reconnect to such
// an engine in a busy loop.
func (c *Client) pauseBeforeDial() time.Duration {
	last := c.lastUnusable
	c.lastUnusable = noneUnusable
	switch last {
	case noneUnusable:
		return 0
	case unusableAnswered:
		c.unusedInRow = 0
		return 0
	}
	c.unusedInRow++
	if c.unusedInRow == 1 {
		// Engines end idle connections, too.
		return 0
	}
	return c.backoff(c.unusedInRow - 2)
}

// dialInTurn chooses the addresses of a dial, and begins with the first.
func (c *Client) dialInTurn(isElsewhere bool) {
	order := c.order()
	fresh := c.fresh(order)
	if len(fresh) == 0 {
		c.renewedUntil = time.Now().Add(ruleAvoided)
	} else if isElsewhere {
		order = fresh
	}
	c.nextAddress = order[0] + 1
	go c.connectInTurn(order, fresh)
}

// connectInTurn connects to the first address that can be reached.
func (c *Client) connectInTurn(order, fresh []int) {
	var failure *Error
	for _, index := range order {
		c.locked(func() { c.nextAddress = index + 1 })
		conn, err := c.connectTo(index)
		if err == nil {
			c.locked(func() {
				c.missed(fresh, index)
				c.dialled(conn)
			})
			return
		}
		// An error of the network may pass, one of certificates does not.
		if failure == nil || err.Code == CodeConnectFailed || failure.Code != CodeConnectFailed {
			failure = err
		}
		c.locked(func() { c.notice(c.addresses[index].String(), false, err) })
	}
	c.locked(func() {
		c.missed(fresh, -1)
		if len(order) == len(c.addresses) {
			c.failedError = failure
			c.failedUntil = time.Now().Add(c.backoff(c.dialFailures))
			c.dialFailures++
		}
		c.isDialing = false
		c.pump()
	})
}

// missed records whether a dial has reached one of the addresses that were not avoided.
func (c *Client) missed(fresh []int, reached int) {
	switch {
	case len(fresh) == 0:
	case slices.Contains(fresh, reached):
		c.stuckFailures, c.stuckUntil = 0, time.Time{}
	default:
		c.stuckUntil = time.Now().Add(c.backoff(c.stuckFailures))
		c.stuckFailures++
	}
}

func (c *Client) dialled(conn *conn) {
	c.isDialing = false
	c.dialFailures, c.failedUntil, c.failedError = 0, time.Time{}, nil
	c.open[conn] = struct{}{}
	c.notice(conn.name, true, nil)
	conn.start()
	if c.isPoolClosed {
		conn.end(newError(CodeClosed, RetryNever, nil, "the client is closed"))
	} else {
		c.usable = append(c.usable, conn)
		c.replaceAvoided(conn)
	}
	c.pump()
}

// replaceAvoided removes connections to avoided places that a new one replaces: all to the same place, and one more if there are too many.
// They close when the calls in flight have ended.
func (c *Client) replaceAvoided(opened *conn) {
	var replaced []*conn
	drop := func(dropped *conn) {
		c.usable = slices.DeleteFunc(c.usable, func(other *conn) bool { return other == dropped })
		dropped.isDraining = true
		replaced = append(replaced, dropped)
	}
	if c.isAvoided(opened.place) {
		for _, other := range slices.Clone(c.usable) {
			if other != opened && other.place == opened.place {
				drop(other)
			}
		}
		delete(c.avoided, opened.place)
	}
	var least *conn
	for _, conn := range c.usable {
		if c.isAvoided(conn.place) && (least == nil || conn.inFlight < least.inFlight) {
			least = conn
		}
	}
	if least != nil && len(c.usable) > c.settings.ConnectionsMax {
		drop(least)
	}
	for _, conn := range replaced {
		conn.endIfUnused()
	}
}

// connectTo connects to a record of an address, within ConnectTimeout.
func (c *Client) connectTo(index int) (*conn, *Error) {
	ctx, cancel := context.WithTimeout(c.closing, c.settings.ConnectTimeout)
	defer cancel()
	connected, failure := c.network(ctx, index)
	if failure != nil {
		failure.Message = c.addresses[index].String() + ": " + failure.Message
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			failure = newError(CodeConnectFailed, RetryElsewhere, ctx.Err(), "%s: no connection within %v", c.addresses[index], c.settings.ConnectTimeout)
		}
		return nil, failure
	}
	name := c.addresses[index].String()
	if connected.record.IsValid() {
		name = connected.record.String()
	}
	return &conn{
		client: c, place: place{index, connected.record}, name: name, raw: connected.raw, secure: connected.secure, expires: connected.expires,
		wake: make(chan struct{}, 1),
	}, nil
}

// connected is a new connection.
type connected struct {
	record netip.AddrPort
	// raw is below TLS, which is secure.
	raw, secure net.Conn
	// expires is when the engine's chain does.
	expires time.Time
}

// overTLS connects to the first record of an address that can be reached, beginning at a random one; avoided ones come last. Each gets an
// equal part of the time.
func (c *Client) overTLS(ctx context.Context, index int) (connected, *Error) {
	config, failure := c.tlsConfig(c.addresses[index].name)
	if failure != nil {
		return connected{}, failure
	}
	records, err := c.records(ctx, index)
	if err != nil {
		return connected{}, newError(CodeConnectFailed, RetryElsewhere, err, "the host name cannot be resolved: %v", err)
	}
	var raw net.Conn
	var record netip.AddrPort
	dialer := net.Dialer{KeepAlive: keepAlive, Timeout: c.settings.ConnectTimeout / time.Duration(len(records))}
	for _, record = range records {
		if raw, err = dialer.DialContext(ctx, "tcp", record.String()); err == nil {
			break
		}
	}
	if err != nil {
		return connected{}, newError(CodeConnectFailed, RetryElsewhere, err, "%v", err)
	}
	secure := tls.Client(raw, config)
	if err = secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		if isCertificateError(err) {
			return connected{}, newError(CodeTLSFailed, RetryNever, err, "%v", err)
		}
		return connected{}, newError(CodeConnectFailed, RetryElsewhere, err, "%v", err)
	}
	if secure.ConnectionState().NegotiatedProtocol != alpn {
		raw.Close()
		return connected{}, newError(CodeTLSFailed, RetryNever, nil, "the server does not support %s; connect to the engine's RPC port", alpn)
	}
	return connected{record, raw, secure, chainExpiry(secure.ConnectionState().VerifiedChains)}, nil
}

// records looks an address up, and returns its places in the order in which they are tried.
func (c *Client) records(ctx context.Context, index int) ([]netip.AddrPort, error) {
	address := c.addresses[index]
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", address.name)
	if err != nil {
		return nil, err
	}
	var records []netip.AddrPort
	for _, ip := range found {
		if record := netip.AddrPortFrom(ip.Unmap(), uint16(address.port)); !slices.Contains(records, record) {
			records = append(records, record)
		}
	}
	begin := int(c.random()*float64(len(records))) % max(1, len(records))
	records = append(records[begin:len(records):len(records)], records[:begin]...)
	c.locked(func() {
		address.records = len(records)
		slices.SortStableFunc(records, func(a, b netip.AddrPort) int {
			return cmp.Compare(boolean(c.isAvoided(place{index, a})), boolean(c.isAvoided(place{index, b})))
		})
	})
	if len(records) == 0 {
		return nil, errors.New("it has no address")
	}
	return records, nil
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
func (c *Client) tlsConfig(host string) (*tls.Config, *Error) {
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
		// Listed, because GODEBUG=tlsmlkem=0 changes only the default.
		CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256},
		ServerName:       cmp.Or(c.settings.ServerName, host),
		// Whatever authorities the server names: this is the only certificate.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
	}, nil
}

// ended removes a connection.
func (c *Client) ended(ended *conn, err *Error) {
	delete(c.open, ended)
	c.notice(ended.name, false, err)
}

// backoff returns the pause after earlier failures. Jitter over its upper part, so that clients do not all return at once.
func (c *Client) backoff(failures int) time.Duration {
	longest := float64(c.settings.BackoffMin) * math.Pow(ruleBackoffFactor, float64(min(failures, 30)))
	pause := min(longest, float64(c.settings.BackoffMax))
	return time.Duration(pause * (ruleJitterFrom + (ruleJitterTo-ruleJitterFrom)*c.random()))
}

func boolean(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (c *Client) notice(address string, isOpen bool, err *Error) {
	if notify := c.settings.OnConnection; notify != nil {
		c.effect(func() { notify(address, isOpen, err) })
	}
}
