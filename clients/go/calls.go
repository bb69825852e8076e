package leafseal

import (
	"context"
	"errors"
	"io"
	"time"
)

const (
	// retryCost is the cost of retrying a refused call, if an answer earns 1: at most a tenth more calls reach an overloaded engine.
	retryCost = 10
	creditMax = 100 * retryCost
)

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// waiter is a call that waits for a connection or its turn. Its channel receives a ticket or an error, once.
type waiter struct {
	request  *request
	deadline time.Time
	retries  *int
	turn     chan turn
	// attemptsFailed is the client's when the wait began, or when it last counted as a retry.
	attemptsFailed int
}

// waiters is the set of calls that wait; Client.order has their order, and some that no longer wait.
type waiters map[*waiter]struct{}

func (w waiters) remove(one *waiter) bool {
	_, waits := w[one]
	delete(w, one)
	return waits
}

type turn struct {
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

// call makes a call. It is retried only if no engine executes it: no connection could be opened, the connection ended before the engine
// read the request, or it answered unavailable or overloaded. Retries of refused calls are limited over all calls.
func (c *Client) call(ctx context.Context, request *request, timeout time.Duration) (*response, error) {
	if timeout == 0 {
		timeout = c.settings.Timeout
	}
	if timeout < time.Millisecond || timeout > durationMax {
		return nil, invalidArgument("Timeout must be from 1 ms to %v", durationMax)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.exit()
	retries := 0
	for {
		ticket, err := c.begin(limited, request, &retries)
		if err != nil {
			return nil, err
		}
		outcome, err := c.await(limited, ticket)
		if err != nil {
			return nil, err
		}
		if outcome.response != nil && outcome.response.err == nil {
			return outcome.response, nil
		}
		if err := c.pauseBeforeRetry(limited, request, outcome, &retries); err != nil {
			return nil, err
		}
	}
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
	return newError(CodeAborted, RetryNever, err, "the caller cancelled the call")
}

// begin waits for a connection and the call's turn, and sends the request.
func (c *Client) begin(ctx context.Context, request *request, retries *int) (*ticket, error) {
	if ctx.Err() != nil {
		return nil, stopped(ctx, "no connection was available")
	}
	deadline, _ := ctx.Deadline()
	w := &waiter{request: request, deadline: deadline, retries: retries, turn: make(chan turn, 1)}
	var refusal *Error
	c.locked(func() {
		if refusal = c.refusal(request); refusal == nil {
			w.attemptsFailed = c.attemptsFailed
			c.waiting[w] = struct{}{}
			c.order = append(c.order, w)
			c.bytesWaiting += request.size()
			c.pump()
		}
	})
	if refusal != nil {
		return nil, refusal
	}
	select {
	case turn := <-w.turn:
		if turn.err != nil {
			return nil, turn.err
		}
		return turn.ticket, nil
	case <-ctx.Done():
		return c.leaveQueue(ctx, w)
	}
}

// leaveQueue ends the wait of a call, which may have got its turn meanwhile.
func (c *Client) leaveQueue(ctx context.Context, w *waiter) (*ticket, error) {
	c.locked(func() {
		if c.waiting.remove(w) {
			c.bytesWaiting -= w.request.size()
			c.compact()
			return
		}
		if turn := <-w.turn; turn.ticket != nil {
			c.release(turn.ticket)
			turn.ticket.conn.cancel(turn.ticket)
			c.pump()
		}
	})
	return nil, stopped(ctx, "no connection was available")
}

func (c *Client) refusal(request *request) *Error {
	if c.isAbandoned {
		return newError(CodeClosed, RetryNever, nil, "the client was closed")
	}
	waiting := len(c.waiting)
	isNext := waiting == 0 && c.bytesInFlight < c.settings.BytesInFlightMax && c.pick(request) != nil
	hasRoom := waiting < c.settings.RequestsWaitingMax && (waiting == 0 || c.bytesWaiting+request.size() <= c.settings.BytesWaitingMax)
	if isNext || hasRoom {
		return nil
	}
	return newError(CodeBusy, RetryLater, nil, "%d calls (%d bytes) wait already; start fewer at a time, or raise RequestsWaitingMax (%d) or BytesWaitingMax (%d)",
		waiting, c.bytesWaiting, c.settings.RequestsWaitingMax, c.settings.BytesWaitingMax)
}

// first returns the first call that waits, or nil.
func (c *Client) first() *waiter {
	for len(c.order) > 0 {
		if _, waits := c.waiting[c.order[0]]; waits {
			return c.order[0]
		}
		c.order[0] = nil
		c.order = c.order[1:]
	}
	return nil
}

// next is first, and removes the call.
func (c *Client) next() *waiter {
	w := c.first()
	if w != nil {
		c.waiting.remove(w)
		c.bytesWaiting -= w.request.size()
	}
	return w
}

// compact removes calls that no longer wait, once they are the majority.
func (c *Client) compact() {
	if len(c.order) < 1024 || len(c.order) < 2*len(c.waiting) {
		return
	}
	var order []*waiter
	for _, w := range c.order {
		if _, waits := c.waiting[w]; waits {
			order = append(order, w)
		}
	}
	c.order = order
}

// pump begins waiting calls while there is a connection for them.
func (c *Client) pump() {
	for len(c.waiting) > 0 && c.bytesInFlight < c.settings.BytesInFlightMax {
		conn := c.pick(c.first().request)
		if conn == nil {
			if !c.isHopeful(true) {
				c.disappoint()
			}
			return
		}
		w := c.next()
		c.bytesInFlight += w.request.size()
		w.turn <- turn{ticket: conn.send(w.request, w.deadline)}
	}
	if len(c.waiting) == 0 {
		c.order = nil
	}
}

// disappoint is called while no engine is connected or being connected to: calls wait for the next attempt if that may help, others fail.
// It is called for every new call, too, but a retry counts only after an attempt has failed.
func (c *Client) disappoint() {
	pause := c.retryIn()
	if pause <= 0 {
		c.grow()
		return
	}
	err := c.poolError()
	isFinal := err.Code == CodeTLSFailed || err.Code == "forbidden"
	order := c.order
	for _, w := range order {
		if _, waits := c.waiting[w]; !waits {
			continue
		}
		hasFailed := w.attemptsFailed < c.attemptsFailed
		if isFinal || (hasFailed && *w.retries >= c.settings.RetriesMax) || time.Now().Add(pause).After(w.deadline) {
			c.waiting.remove(w)
			c.bytesWaiting -= w.request.size()
			w.turn <- turn{err: err}
		} else if hasFailed {
			w.attemptsFailed = c.attemptsFailed
			*w.retries++
		}
	}
	if len(c.waiting) > 0 && c.wakeTimer == nil {
		c.wakeTimer = time.AfterFunc(pause+time.Millisecond, func() {
			c.locked(func() {
				c.wakeTimer = nil
				c.pump()
			})
		})
	}
}

// await waits for the outcome of a request in flight.
func (c *Client) await(ctx context.Context, t *ticket) (outcome, error) {
	select {
	case result := <-t.done:
		c.locked(func() {
			c.release(t)
			if result.response != nil && result.response.err == nil {
				c.credit = min(c.credit+1, creditMax)
			}
			c.pump()
		})
		return result, nil
	case <-ctx.Done():
		c.locked(func() {
			c.release(t)
			t.conn.cancel(t)
			c.pump()
		})
		return outcome{}, stopped(ctx, "the engine did not answer")
	}
}

func (c *Client) release(t *ticket) {
	c.bytesInFlight -= t.request.size()
}

// pauseBeforeRetry returns the error of a request that is not retried.
func (c *Client) pauseBeforeRetry(ctx context.Context, request *request, outcome outcome, retries *int) error {
	err := outcome.err
	isCharged := false
	if outcome.response != nil {
		err = outcome.response.err
		if err.Code != "overloaded" && err.Code != "unavailable" {
			return err
		}
		isCharged = err.Code == "overloaded" || !(outcome.isLeaving || c.hasOther(request))
	} else if err.Retry != RetryElsewhere || (err.Code != CodeGoingAway && outcome.isStarted) {
		return err
	}
	pause := time.Duration(0)
	if isCharged || *retries > 0 {
		pause = max(c.backoff(*retries), err.RetryAfter)
	}
	deadline, _ := ctx.Deadline()
	if *retries >= c.settings.RetriesMax || time.Now().Add(pause).After(deadline) || (isCharged && !c.pay()) {
		return err
	}
	*retries++
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

// hasOther returns whether another engine than the one that refused a request may be asked.
func (c *Client) hasOther(request *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, engine := range c.engines() {
		if engine != request.refusedBy && !engine.isLastResort(now) && !engine.ejectedUntil.After(now) {
			return true
		}
	}
	return false
}

func (c *Client) pay() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.credit < retryCost {
		return false
	}
	c.credit -= retryCost
	return true
}
