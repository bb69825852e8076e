package leafseal

import (
	"context"
	"math/rand/v2"
	"sync"
)

// Client is a client of one engine, or of several that serve the same apps.
type Client struct {
	settings Settings

	// mu guards everything below, and the state of connections. Nothing blocks and no foreign code runs under it.
	mu      sync.Mutex
	effects []func()
	pool
	waiting       waiters
	queue         []*waiter
	bytesWaiting  int64
	bytesInFlight int64
	active        int
	credit        int
	isClosed      bool
	isAbandoned   bool
	isPoolClosed  bool

	idle     chan struct{}
	idleOnce sync.Once
	// network connects to an address, and random returns a number from 0 to 1; tests replace them.
	network func(ctx context.Context, address int) (connected, *Error)
	random  func() float64
	// closing is done when the client is closed; cancelling ends attempts to connect.
	closing context.Context
	stop    context.CancelFunc
}

// New checks the settings and returns a client, which connects on its first call.
func New(settings Settings) (*Client, error) {
	checked, addresses, err := settings.checked()
	if err != nil {
		return nil, err
	}
	closing, stop := context.WithCancel(context.Background())
	c := &Client{
		settings: checked, waiting: waiters{}, credit: ruleCreditStart, random: rand.Float64, idle: make(chan struct{}), closing: closing, stop: stop,
		// A random address first: otherwise all clients would connect to the same engine first.
		pool: pool{
			addresses: addresses, nextAddress: rand.IntN(len(addresses)), open: map[*conn]struct{}{}, avoided: map[place]avoidance{},
		},
	}
	c.network = c.overTLS
	return c, nil
}

// Connect is New, and connects: a wrong address or certificate is reported here.
func Connect(ctx context.Context, settings Settings) (*Client, error) {
	client, err := New(settings)
	if err != nil {
		return nil, err
	}
	if _, err := client.Health(ctx); err != nil {
		client.CloseNow()
		return nil, err
	}
	return client, nil
}

// Close accepts no more calls, waits for those under way, and closes the connections.
func (c *Client) Close() {
	c.mu.Lock()
	c.isClosed = true
	if c.active == 0 {
		c.idleOnce.Do(func() { close(c.idle) })
	}
	c.mu.Unlock()
	<-c.idle
	c.closePool()
}

// CloseNow is Close, but calls under way fail with closed.
func (c *Client) CloseNow() {
	c.locked(func() {
		c.isClosed, c.isAbandoned = true, true
		for w := c.takeFirst(); w != nil; w = c.takeFirst() {
			w.granted <- grant{err: newError(CodeClosed, RetryNever, nil, "the client was closed")}
		}
	})
	c.closePool()
	c.Close()
}

func (c *Client) closePool() {
	c.stop()
	c.locked(func() {
		c.isPoolClosed = true
		for conn := range c.open {
			conn.end(newError(CodeClosed, RetryNever, nil, "the client was closed"))
		}
	})
}

// CallsInFlight returns the number of calls that have not ended.
func (c *Client) CallsInFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// Report is the engine's report about a list or document.
type Report struct {
	// Count is the number of values of a document that were encrypted or decrypted, or of new envelopes of Rewrap.
	Count int64
	// Matched has the number of values that each selector matched.
	Matched []int64
	// Resealed is the number of values that were envelopes already and are now encrypted twice.
	Resealed int64
	// Skipped is the number of envelopes that were left alone because of SkipSealed.
	Skipped int64
	// Rewrapped is the number of envelopes to a public key that Reseal made symmetric ones of.
	Rewrapped int64
	// Symmetric is the number of values that were sealed, or opened, with a symmetric key; the others have envelopes to a public key.
	Symmetric int64
	// Failed is the number of envelopes that did not open, with an OnFailure of leave or null.
	Failed int64
	// FailedIndexes has the indexes of the first of those in a list.
	FailedIndexes []int64
	// FailedPaths has the normalized paths of the first of those in a document.
	FailedPaths []string
}

// Encrypt encrypts a value: nil, a string, a boolean, an integer from -2^63 to 2^64-1 (also *big.Int) or a finite float. Nil gives "".
func (c *Client) Encrypt(ctx context.Context, value any, options EncryptOptions) (string, error) {
	sealed, err := c.EncryptAll(ctx, []any{value}, options)
	if err != nil {
		return "", err
	}
	text, _ := sealed[0].(string)
	return text, nil
}

// EncryptAll encrypts values in one request: all or none. It returns as many envelopes, strings, in the same order; nil stays nil.
func (c *Client) EncryptAll(ctx context.Context, values []any, options EncryptOptions) ([]any, error) {
	return c.list(ctx, methodEncrypt, values, nil, options)
}

// EncryptAllBound is EncryptAll with a context for each value in place of options.Context: as many contexts of 1 to 1024 bytes as there are
// values, for nil too. Each envelope opens in its own context alone.
func (c *Client) EncryptAllBound(ctx context.Context, values []any, contexts []string, options EncryptOptions) ([]any, error) {
	return c.list(ctx, methodEncrypt, values, notNil(contexts), options)
}

// Decrypt decrypts an envelope; any other value is returned unchanged. Integers are int64, or uint64 from 2^63 on; other numbers are float64.
func (c *Client) Decrypt(ctx context.Context, value any, options DecryptOptions) (any, error) {
	opened, err := c.DecryptAll(ctx, []any{value}, options)
	if err != nil {
		return nil, err
	}
	return opened[0], nil
}

// DecryptAll decrypts envelopes among any values in one request. It returns as many values in the same order.
func (c *Client) DecryptAll(ctx context.Context, values []any, options DecryptOptions) ([]any, error) {
	return c.list(ctx, methodDecrypt, values, nil, options)
}

// DecryptAllBound is DecryptAll with a context for each value, as EncryptAllBound has them.
func (c *Client) DecryptAllBound(ctx context.Context, values []any, contexts []string, options DecryptOptions) ([]any, error) {
	return c.list(ctx, methodDecrypt, values, notNil(contexts), options)
}

// EncryptDocument encrypts the selected values of a JSON document; every other byte stays unchanged. The slice must not change before the
// call returns.
func (c *Client) EncryptDocument(ctx context.Context, json []byte, options EncryptOptions) ([]byte, error) {
	return c.document(ctx, methodEncryptDocument, json, options)
}

// DecryptDocument decrypts the selected envelopes of a JSON document; every other byte stays unchanged. Numbers keep their exact text.
func (c *Client) DecryptDocument(ctx context.Context, json []byte, options DecryptOptions) ([]byte, error) {
	return c.document(ctx, methodDecryptDocument, json, options)
}

// EncryptFile encrypts a file. The slice must not change before the call returns. Of the options only App, Timeout and Curve apply.
func (c *Client) EncryptFile(ctx context.Context, data []byte, options EncryptOptions) ([]byte, error) {
	return c.file(ctx, methodEncryptFile, data, options)
}

// DecryptFile decrypts a file that EncryptFile or `leafseal encrypt` created. Of the options only App, Timeout and KeyID apply.
func (c *Client) DecryptFile(ctx context.Context, data []byte, options DecryptOptions) ([]byte, error) {
	return c.file(ctx, methodDecryptFile, data, options)
}

// Rewrap encrypts envelopes again under the app's newest key version. It returns as many in the same order, and how many of them are new.
func (c *Client) Rewrap(ctx context.Context, envelopes []string, options RewrapOptions) ([]string, int64, error) {
	return c.rewrap(ctx, envelopes, nil, options)
}

// RewrapBound is Rewrap with a context for each envelope, the old and the new one, as EncryptAllBound has them.
func (c *Client) RewrapBound(ctx context.Context, envelopes, contexts []string, options RewrapOptions) ([]string, int64, error) {
	return c.rewrap(ctx, envelopes, notNil(contexts), options)
}

func (c *Client) rewrap(ctx context.Context, envelopes, contexts []string, options RewrapOptions) ([]string, int64, error) {
	encoder, err := c.encoderOf(methodRewrap, options, ofValues)
	if err != nil {
		return nil, 0, err
	}
	var sealed []string
	var report Report
	encoder.texts("contexts", contexts).texts("values", notNil(envelopes))
	err = c.do(ctx, encoder.done, options.Timeout, func(result []byte) (failure *Error) {
		sealed, report, failure = readValues(result, len(envelopes), readText)
		if failure == nil && options.OnReport != nil {
			options.OnReport(report)
		}
		return failure
	})
	return sealed, report.Count, err
}

// Inspect returns the metadata of envelopes, never their values; with an app in the options, also the fields inside.
func (c *Client) Inspect(ctx context.Context, envelopes []string, options InspectOptions) ([]Inspection, error) {
	encoder := c.encoder(methodInspect, false).text("app", options.App).text("context", options.Context).
		text("accept", options.Accept)
	var inspections []Inspection
	err := c.do(ctx, encoder.texts("values", notNil(envelopes)).done, options.Timeout, func(result []byte) (failure *Error) {
		inspections, _, failure = readValues(result, len(envelopes), readInspection)
		return failure
	})
	return inspections, err
}
