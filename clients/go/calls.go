package leafseal

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// waiter is a call that waits for a connection. Its channel receives a ticket or an error, once.
type waiter struct {
	request *request
	granted chan grant
}

// waiters is the set of calls that wait; Client.queue has their order, and some that no longer wait.
type waiters map[*waiter]struct{}

func (w waiters) remove(one *waiter) bool {
	_, waits := w[one]
	delete(w, one)
	return waits
}

// grant ends the wait of a call: with the ticket of its request, or an error.
type grant struct {
	ticket *ticket
	err    *Error
}

// locked runs a change under the mutex, and afterwards the effects that it has collected: foreign code.
func (c *Client) locked(change func()) {
	c.mu.Lock()
	change()
	effects := c.effects
	c.effects = nil
	c.mu.Unlock()
	for _, effect := range effects {
		effect()
	}
}

func (c *Client) effect(work func()) {
	c.effects = append(c.effects, work)
}

// call makes a call, and retries it as vectors/client/rules.json says: only if no engine executes it.
func (c *Client) call(ctx context.Context, request *request, timeout time.Duration) (*response, error) {
	if timeout == 0 {
		timeout = c.settings.Timeout
	}
	if timeout < time.Millisecond || timeout > durationMax {
		return nil, invalidArgument("Timeout must be from 1 ms to %v", durationMax)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request.begin(limited)
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.exit()
	retries := 0
	for {
		result, err := c.attempt(limited, request)
		if err != nil {
			return nil, err
		}
		if result.response != nil && result.response.err == nil {
			return result.response, nil
		}
		if err := c.pauseBeforeRetry(limited, request, result, &retries); err != nil {
			return nil, err
		}
	}
}

// attempt returns how a request ended; an error if the call is over.
func (c *Client) attempt(ctx context.Context, request *request) (outcome, error) {
	granted, err := c.begin(ctx, request)
	if err != nil {
		return outcome{}, err
	}
	if granted.err != nil {
		return outcome{err: granted.err}, nil
	}
	return c.await(ctx, granted.ticket)
}

func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return newError(CodeClosed, RetryNever, nil, "the client is closed")
	}
	c.active++
	return nil
}

func (c *Client) exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active--
	if c.active == 0 && c.isClosed {
		c.idleOnce.Do(func() { close(c.idle) })
	}
}

// stopped is the error of a call whose context is done.
func stopped(ctx context.Context, where string) *Error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return newError(CodeDeadlineExceeded, RetryLater, err, "%s within the time limit", where)
	}
	return newError(CodeCancelled, RetryNever, err, "the caller cancelled the call")
}

// begin waits until the call may be sent, and sends the request.
func (c *Client) begin(ctx context.Context, request *request) (grant, error) {
	if ctx.Err() != nil {
		return grant{}, stopped(ctx, "no connection was available")
	}
	w := &waiter{request: request, granted: make(chan grant, 1)}
	var refusal *Error
	c.locked(func() {
		if refusal = c.refusal(request); refusal == nil {
			c.wait(w)
		}
	})
	if refusal != nil {
		return grant{}, refusal
	}
	select {
	case granted := <-w.granted:
		return granted, nil
	case <-ctx.Done():
		return grant{}, c.leaveQueue(ctx, w)
	}
}

// leaveQueue ends the wait of a call, which may have been granted meanwhile.
func (c *Client) leaveQueue(ctx context.Context, w *waiter) error {
	c.locked(func() {
		if c.waiting.remove(w) {
			c.bytesWaiting -= w.request.size()
			c.compact()
			return
		}
		if granted := <-w.granted; granted.ticket != nil {
			c.release(granted.ticket)
			granted.ticket.conn.cancel(granted.ticket)
		}
	})
	return stopped(ctx, "no connection was available")
}

func (c *Client) refusal(request *request) *Error {
	if c.isAbandoned {
		return newError(CodeClosed, RetryNever, nil, "the client was closed")
	}
	waiting := len(c.waiting)
	isNext := waiting == 0 && c.bytesInFlight < c.settings.BytesInFlightMax && c.hasRoom(request)
	hasRoom := waiting < c.settings.RequestsWaitingMax && (waiting == 0 || c.bytesWaiting+request.size() <= c.settings.BytesWaitingMax)
	if isNext || hasRoom {
		return nil
	}
	return newError(CodeBusy, RetryLater, nil, "%d calls (%d bytes) wait already; start fewer at a time, or raise RequestsWaitingMax (%d) or BytesWaitingMax (%d)",
		waiting, c.bytesWaiting, c.settings.RequestsWaitingMax, c.settings.BytesWaitingMax)
}

// hasRoom returns whether a request would be sent now.
func (c *Client) hasRoom(request *request) bool {
	best := c.best(request)
	return best != nil && !c.isFull(best)
}

// first returns the first call that waits, or nil.
func (c *Client) first() *waiter {
	for len(c.queue) > 0 {
		if _, waits := c.waiting[c.queue[0]]; waits {
			return c.queue[0]
		}
		c.queue[0] = nil
		c.queue = c.queue[1:]
	}
	c.queue = nil
	return nil
}

// takeFirst removes that call from those that wait.
func (c *Client) takeFirst() *waiter {
	w := c.first()
	if w != nil {
		c.queue = c.queue[1:]
		c.waiting.remove(w)
		c.bytesWaiting -= w.request.size()
	}
	return w
}

// compact removes calls that no longer wait, once they are the majority.
func (c *Client) compact() {
	if len(c.queue) < 1024 || len(c.queue) < 2*len(c.waiting) {
		return
	}
	c.queue = slices.DeleteFunc(c.queue, func(w *waiter) bool { _, waits := c.waiting[w]; return !waits })
}

// wait begins a call, or lets it wait.
func (c *Client) wait(w *waiter) {
	if c.bytesInFlight < c.settings.BytesInFlightMax && c.tryBegin(w) {
		return
	}
	c.waiting[w] = struct{}{}
	c.queue = append(c.queue, w)
	c.bytesWaiting += w.request.size()
}

// pump begins waiting calls while there is a connection for them. Where the first one waits, all others would.
func (c *Client) pump() {
	for w := c.first(); w != nil && c.bytesInFlight < c.settings.BytesInFlightMax && c.tryBegin(w); w = c.first() {
		c.takeFirst()
	}
}

// tryBegin passes a connection or an error to a call, or returns false.
func (c *Client) tryBegin(w *waiter) bool {
	conn, err := c.choose(w.request)
	switch {
	case err != nil:
		w.granted <- grant{err: err}
	case conn != nil:
		c.bytesInFlight += w.request.size()
		w.granted <- grant{ticket: conn.send(w.request)}
	default:
		return false
	}
	return true
}

// await waits for the outcome of a request in flight.
func (c *Client) await(ctx context.Context, t *ticket) (outcome, error) {
	select {
	case result := <-t.done:
		c.locked(func() {
			c.release(t)
			if result.response != nil && result.response.err == nil && earns(t.request.method) {
				c.credit = min(c.credit+ruleCreditEarned, ruleCreditMax)
			}
		})
		return result, nil
	case <-ctx.Done():
		c.locked(func() {
			c.release(t)
			t.conn.cancel(t)
		})
		return outcome{}, stopped(ctx, "the engine did not answer")
	}
}

// release ends a request's share of the bytes in flight. Calls that waited for it begin.
func (c *Client) release(t *ticket) {
	wasFull := c.bytesInFlight >= c.settings.BytesInFlightMax
	c.bytesInFlight -= t.request.size()
	if wasFull {
		c.pump()
	}
}

// pauseBeforeRetry returns the error of a request that is not retried.
func (c *Client) pauseBeforeRetry(ctx context.Context, request *request, failed outcome, retries *int) error {
	err := failed.err
	if failed.response != nil {
		err = failed.response.err
	}
	action := failed.action(err)
	pause := c.pause(action, *retries, err)
	limit, _ := ctx.Deadline()
	if request.deadline.Before(limit) {
		limit = request.deadline
	}
	isOver := action == actionFail || *retries >= c.settings.RetriesMax || !time.Now().Add(pause).Before(limit)
	if isOver || (action == actionRetryCharged && !c.pay()) {
		return err
	}
	*retries++
	request.isRetried = true
	if notify := c.settings.OnRetry; notify != nil {
		notify(request.method, err)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.closing.Done():
		return newError(CodeClosed, RetryNever, nil, "the client was closed")
	case <-ctx.Done():
		return stopped(ctx, "no engine accepted the call")
	}
}

func (c *Client) pause(action action, retries int, err *Error) time.Duration {
	switch {
	case action == actionFail, action == actionRetryElsewhere && retries == 0:
		return 0
	case action == actionRetryLater:
		// Before the next attempt to connect the call would only get the same error.
		c.mu.Lock()
		defer c.mu.Unlock()
		return max(c.backoff(retries), time.Until(c.failedUntil))
	}
	return max(c.backoff(retries), err.RetryAfter)
}

func (c *Client) pay() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.credit < ruleRetryCost {
		return false
	}
	c.credit -= ruleRetryCost
	return true
}
