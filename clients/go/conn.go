package leafseal

import (
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

const (
	// recordSize is the plaintext of a TLS record (RFC 8446, section 5.1).
	recordSize = 1 << 14
	readSize   = 1 << 16
	// batchSize is where messages that are written together end; a message may be longer.
	batchSize = 1 << 16
	// reasonTime is how long a failed write waits for the reason to be read.
	reasonTime = time.Second
)

// outcome is what a request in flight ends with: a response, or the error that ended its connection.
type outcome struct {
	response *response
	err      *Error
	// isSent: at least a byte of the request was written.
	isSent bool
	// isElsewhere: the connection is no longer usable, or another engine may serve what this one refused.
	isElsewhere bool
}

func (o outcome) wipe() {
	if o.response != nil {
		clear(o.response.frame)
	}
}

// ticket is a request in flight. Its channel receives exactly one outcome, unless the caller cancels it.
type ticket struct {
	id      uint32
	conn    *conn
	request *request
	// deadlineMS is what is left of the request's deadline, if it has one.
	deadlineMS uint32
	done       chan outcome
	// isWanted: the caller waits for the outcome.
	isWanted  bool
	isStarted bool
	isUsed    bool
	sent      time.Time
	watch     *time.Timer
}

// outgoing is a message to write: a request, or cancel for it.
type outgoing struct {
	ticket   *ticket
	isCancel bool
}

// conn is one TLS connection: many requests in flight, answers in any order. One goroutine reads and one writes, so that no caller blocks
// in the network. State is guarded by the client's mutex.
type conn struct {
	client *Client
	place  place
	name   string
	// raw is below TLS, which is secure.
	raw, secure net.Conn
	expires     time.Time
	wake        chan struct{}

	output      []outgoing
	tickets     []*ticket
	free        []uint32
	inFlight    int
	hasAnswered bool
	isDraining  bool
	// expiry drains the connection when the engine's chain expires.
	expiry     *time.Timer
	hasExpired bool
	err        *Error
}

func (c *conn) start() {
	go c.read()
	go c.write()
	if !c.expires.IsZero() {
		c.drainAt(c.expires)
	}
}

// send queues a request; the connection is usable and has room.
func (c *conn) send(request *request) *ticket {
	t := &ticket{
		conn: c, request: request, deadlineMS: request.deadlineMS(), sent: time.Now(), done: make(chan outcome, 1), isWanted: true, isUsed: true,
	}
	if last := len(c.free) - 1; last >= 0 {
		t.id = c.free[last]
		c.free = c.free[:last]
		c.tickets[t.id] = t
	} else {
		t.id = uint32(len(c.tickets))
		c.tickets = append(c.tickets, t)
	}
	c.inFlight++
	c.queue(outgoing{ticket: t})
	return t
}

func (c *conn) queue(message outgoing) {
	c.output = append(c.output, message)
	c.signal()
}

func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// cancel is called when the caller of a request stops waiting: the engine is asked to stop it. It is still answered, and must be in time.
func (c *conn) cancel(t *ticket) {
	select {
	case unread := <-t.done:
		unread.wipe()
	default:
	}
	if c.err != nil || !t.isWanted {
		return
	}
	t.isWanted = false
	if !t.isStarted {
		// No byte was written, so there is nothing to cancel.
		for index := range c.output {
			if c.output[index].ticket == t {
				c.output = append(c.output[:index], c.output[index+1:]...)
				break
			}
		}
		c.vacate(t)
		return
	}
	// Before other requests: the rest of this one is sent as zeros, and the engine should not start it.
	c.output = slices.Insert(c.output, 0, outgoing{ticket: t, isCancel: true})
	c.signal()
	t.watch = time.AfterFunc(c.client.settings.AbandonedTimeout, func() {
		c.client.locked(func() {
			if t.isUsed {
				c.end(newError(CodeConnectionLost, RetryElsewhere, nil, "the engine does not answer on this connection"))
			}
		})
	})
}

func (c *conn) vacate(t *ticket) {
	if t.watch != nil {
		t.watch.Stop()
	}
	t.isUsed = false
	c.tickets[t.id] = nil
	c.free = append(c.free, t.id)
	c.inFlight--
	c.endIfUnused()
	c.client.pump()
}

// end closes the connection; requests in flight fail with this error.
func (c *conn) end(err *Error) {
	c.endWith(err, -1, nil)
}

// endWith is end, with an error of its own for one request.
func (c *conn) endWith(err *Error, id int64, own *Error) {
	if c.err != nil {
		return
	}
	c.err = err
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.output = nil
	c.signal()
	wasUsable := c.client.withdraw(c)
	if err.FromEngine {
		c.client.avoid(c.place, "connection_error", err.Code)
	}
	isElsewhere := isRefusal(err) && c.client.mayDialElsewhere()
	// Not that of TLS: its Close may wait for a write.
	c.raw.Close()
	for _, t := range c.tickets {
		if t == nil {
			continue
		}
		if t.watch != nil {
			t.watch.Stop()
		}
		t.isUsed = false
		if t.isWanted {
			reason := err
			if int64(t.id) == id {
				reason = own
			}
			t.finish(outcome{err: reason, isSent: t.isStarted, isElsewhere: isElsewhere})
		}
	}
	c.tickets = nil
	c.inFlight = 0
	c.client.ended(c, err)
	if wasUsable {
		c.client.pump()
	}
}

func (c *conn) read() {
	buffer := make([]byte, readSize)
	defer func() { clear(buffer) }()
	var scan scanner
	limit := c.client.settings.AnswerSizeMax
	begin, scanned, end := 0, 0, 0
	for {
		stop, err := scan.scan(buffer[scanned:end])
		if err != nil {
			c.client.locked(func() { c.end(protocolError("the peer is no engine: %v", err)) })
			return
		}
		size := end - begin
		if stop >= 0 {
			size = scanned + stop - begin
		}
		if size > limit {
			c.tooLarge(idOf(buffer[begin:end]))
			return
		}
		if stop >= 0 {
			frame := append([]byte(nil), buffer[begin:begin+size]...)
			clear(buffer[begin : begin+size])
			begin += size
			scanned = begin
			if !c.take(frame) {
				return
			}
			continue
		}
		scanned = end
		if end == len(buffer) || begin == end {
			buffer, begin, end = makeRoom(buffer, begin, end, limit)
			scanned = end
		}
		count, err := c.secure.Read(buffer[end:])
		end += count
		if count == 0 && err != nil {
			c.client.locked(func() { c.end(c.lost(err)) })
			return
		}
	}
}

// makeRoom moves what has arrived of a message to the start of a buffer that has room.
func makeRoom(buffer []byte, begin, end, limit int) ([]byte, int, int) {
	size := end - begin
	target := buffer
	switch {
	case size == 0 && len(buffer) > readSize:
		target = make([]byte, readSize)
	case begin < len(buffer)/2 && size > 0:
		// One byte more than the limit shows that a message exceeds it.
		target = make([]byte, min(2*len(buffer), max(limit+1, readSize)))
	}
	copy(target, buffer[begin:end])
	if &target[0] == &buffer[0] {
		clear(buffer[size:end])
	} else {
		clear(buffer)
	}
	return target, 0, size
}

func (c *conn) tooLarge(id int64) {
	own := newError(CodeTooLarge, RetryNever, nil, "the answer exceeds AnswerSizeMax (%d bytes)", c.client.settings.AnswerSizeMax)
	others := newError(CodeConnectionLost, RetryElsewhere, nil, "the connection was closed: another answer was too large")
	if id < 0 {
		others = own
	}
	c.client.locked(func() { c.endWith(others, id, own) })
}

// take handles a message, and returns whether the connection continues.
func (c *conn) take(frame []byte) bool {
	message, failure := parse(frame)
	c.client.locked(func() {
		switch {
		case c.err != nil:
			clear(frame)
		case failure != nil:
			clear(frame)
			c.end(failure)
		case message.response != nil:
			c.deliver(message.response)
		case message.ending != nil:
			c.end(message.ending)
		case message.goingAway != "":
			c.drain(message.goingAway)
		}
	})
	return c.isOpen()
}

func (c *conn) isOpen() bool {
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	return c.err == nil
}

func (c *conn) deliver(response *response) {
	var t *ticket
	if int64(response.id) < int64(len(c.tickets)) {
		t = c.tickets[response.id]
	}
	if t == nil || !t.isStarted {
		clear(response.frame)
		c.end(protocolError("the engine sent an answer without a request"))
		return
	}
	c.hasAnswered = true
	if t.isWanted {
		t.finish(outcome{response: response, isSent: true, isElsewhere: c.judge(t, response.err)})
	} else {
		clear(response.frame)
	}
	c.vacate(t)
}

// judge notes what an answer says about the engine, and returns whether another one may serve the request.
func (c *conn) judge(t *ticket, err *Error) bool {
	if err == nil {
		if earns(t.request.method) {
			c.client.served(c.place, t.sent)
		}
		return false
	}
	c.client.avoid(c.place, "answer", err.Code)
	return c.isDraining || (isRefusal(err) && c.client.mayDialElsewhere())
}

// isRefusal returns whether an engine cannot serve requests, unlike others perhaps.
func isRefusal(err *Error) bool {
	return err != nil && err.FromEngine && (err.Code == CodeUnavailable || err.Code == CodeAuditUnavailable)
}

// finish passes the outcome to the caller, who waits for it.
func (t *ticket) finish(outcome outcome) {
	t.isWanted = false
	if t.isStarted {
		t.request.refusedBy = t.conn
	}
	t.done <- outcome
}

// drain begins no more requests: the engine has announced `going_away`, or its chain has expired. Requests of which nothing
// is written go elsewhere; those in flight are finished.
func (c *conn) drain(reason string) {
	if c.err != nil {
		return
	}
	if reason == "closed" {
		c.isDraining = true
		c.end(c.drainError())
		return
	}
	c.client.avoid(c.place, "going_away", reason)
	c.client.withdraw(c)
	c.isDraining = true
	for _, t := range slices.Clone(c.tickets) {
		if t == nil || t.isStarted {
			continue
		}
		c.output = slices.DeleteFunc(c.output, func(message outgoing) bool { return message.ticket == t })
		t.finish(outcome{err: c.drainError()})
		c.vacate(t)
	}
	c.endIfUnused()
	c.client.pump()
}

// endIfUnused ends a draining connection once no call waits for an answer on it.
func (c *conn) endIfUnused() {
	if !c.isDraining || len(c.output) > 0 {
		return
	}
	isWaited := slices.ContainsFunc(c.tickets, func(t *ticket) bool { return t != nil && t.isWanted })
	if c.err == nil && !isWaited {
		c.end(c.drainError())
	}
}

// drainError is the error of requests that were not started on a draining connection.
func (c *conn) drainError() *Error {
	if c.hasExpired {
		return newError(CodeGoingAway, RetryElsewhere, nil, "a certificate of the engine's chain has expired")
	}
	return newError(CodeGoingAway, RetryElsewhere, nil, "the engine closed the connection before it started the request")
}

// drainAt drains the connection when the engine's chain expires, of which the last second is valid.
func (c *conn) drainAt(expiry time.Time) {
	c.expiry = time.AfterFunc(time.Until(expiry.Add(time.Second)), func() { c.client.locked(c.expire) })
}

func (c *conn) expire() {
	if c.err == nil {
		c.hasExpired = true
		c.drain("age")
	}
}

func (c *conn) write() {
	buffer := make([]byte, 0, recordSize)
	for range c.wake {
		for {
			batch, isOpen := c.batch()
			if !isOpen {
				return
			}
			if len(batch) == 0 {
				break
			}
			var err error
			for _, message := range batch {
				if err == nil {
					buffer, err = c.writeMessage(buffer, message)
				}
				if !message.isCancel {
					message.ticket.request.letGo()
				}
			}
			if err == nil && len(buffer) > 0 {
				buffer, err = c.flush(buffer)
			}
			c.client.locked(c.endIfUnused)
			if err != nil {
				// The other goroutine can usually read why: a refused certificate, or a notification.
				time.AfterFunc(reasonTime, func() { c.client.locked(func() { c.end(c.lost(err)) }) })
				return
			}
		}
	}
}

func (c *conn) batch() ([]outgoing, bool) {
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	count, size := 0, int64(0)
	for count < len(c.output) && size < batchSize {
		message := c.output[count]
		message.ticket.isStarted = true
		if !message.isCancel {
			size += message.ticket.request.size()
			message.ticket.request.hold()
		}
		count++
	}
	batch := append([]outgoing(nil), c.output[:count]...)
	c.output = append([]outgoing(nil), c.output[count:]...)
	return batch, c.err == nil
}

func (c *conn) writeMessage(buffer []byte, message outgoing) ([]byte, error) {
	t := message.ticket
	if message.isCancel {
		return c.append(buffer, cancelMessage(t.id), copyBytes)
	}
	parts := [][]byte{start(t.id), t.request.head, nil, t.request.tail}
	if t.request.hasDeadline {
		parts[2] = deadline(t.deadlineMS)
	}
	var err error
	for _, part := range parts {
		if err == nil {
			buffer, err = c.append(buffer, part, copyBytes)
		}
	}
	if err == nil {
		buffer, err = c.append(buffer, t.request.data, t.request.copyData)
	}
	return buffer, err
}

func copyBytes(to, from []byte) {
	copy(to, from)
}

// append collects what is written into whole records: each is a system call. copyTo fills the first slice from the second.
func (c *conn) append(buffer, bytes []byte, copyTo func(to, from []byte)) ([]byte, error) {
	for len(bytes) > 0 {
		filled := len(buffer)
		step := min(len(bytes), recordSize-filled)
		buffer = buffer[:filled+step]
		copyTo(buffer[filled:], bytes)
		bytes = bytes[step:]
		if len(buffer) == recordSize {
			var err error
			if buffer, err = c.flush(buffer); err != nil {
				return buffer, err
			}
		}
	}
	return buffer, nil
}

func (c *conn) flush(buffer []byte) ([]byte, error) {
	_, err := c.secure.Write(buffer)
	clear(buffer)
	return buffer[:0], err
}

// lost is the error of a connection that ended. With TLS 1.3 a refused client certificate is noticed only here.
func (c *conn) lost(err error) *Error {
	if isAlert(err) && !c.hasAnswered {
		return newError(CodeTLSFailed, RetryNever, err, "the engine refused the connection: %v; check the client's certificate", err)
	}
	if errors.Is(err, io.EOF) {
		return newError(CodeConnectionLost, RetryElsewhere, err, "the engine closed the connection")
	}
	return newError(CodeConnectionLost, RetryElsewhere, err, "the connection failed: %v", err)
}

// isAlert returns whether the peer has ended the connection by an alert of TLS.
func isAlert(err error) bool {
	var remote *net.OpError
	return errors.As(err, &remote) && remote.Op == "remote error"
}
