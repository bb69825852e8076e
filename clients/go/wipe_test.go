package leafseal

import (
	"context"
	"math"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

func isZero(bytes []byte) bool {
	for _, octet := range bytes {
		if octet != 0 {
			return false
		}
	}
	return len(bytes) > 0
}

// sendFor makes a call with a secret, and returns its request.
func sendFor(client *Client, ctx context.Context, app, secret string) (*request, error) {
	var sent *request
	err := client.do(ctx, func() (*request, error) {
		encoded, err := client.encoder("encrypt", true).required("app", app).values([]any{secret})
		sent = encoded
		return encoded, err
	}, time.Hour, func([]byte) *Error { return nil })
	return sent, err
}

func isWiped(sent *request) func() bool {
	return func() bool {
		sent.mu.Lock()
		defer sent.mu.Unlock()
		return isZero(sent.head) && isZero(sent.tail)
	}
}

func TestRequestsAreWiped(t *testing.T) {
	engine := startEngine(t)
	client := engine.client(t)
	sent, err := sendFor(client, background, testApp, "secret")
	must(t, err)
	until(t, "wiped after a success", isWiped(sent))
	sent, err = sendFor(client, background, "unknown", "secret")
	expect(t, "forbidden", err)
	until(t, "wiped after an error", isWiped(sent))
	sent, err = sendFor(engine.client(t, at("127.0.0.1:1"), func(s *Settings) { s.RetriesMax = -1 }), background, testApp, "secret")
	expect(t, "connect_failed", err)
	equal(t, true, isWiped(sent)())

	// While it is written it stays, or the connection could not be used for others.
	arrived, stop := make(chan struct{}), make(chan struct{})
	defer close(stop)
	deaf := startPeer(t, engine, func(conn net.Conn) {
		conn.Read(make([]byte, 1))
		close(arrived)
		<-stop
	})
	blocked := engine.client(t, at(deaf.address), func(s *Settings) { s.ConnectionsMax, s.AbandonedTimeout = 1, time.Hour })
	ctx, cancel := context.WithCancel(background)
	go func() {
		<-arrived
		cancel()
	}()
	sent, err = sendFor(blocked, ctx, testApp, strings.Repeat("secret", 6<<20))
	expect(t, "cancelled", err)
	equal(t, false, isWiped(sent)())
	blocked.CloseNow()
	until(t, "wiped after the connection has ended", isWiped(sent))
}

func TestAnAnswerThatNobodyReadsIsWiped(t *testing.T) {
	frame := []byte("secret")
	unread := &ticket{done: make(chan outcome, 1)}
	unread.done <- outcome{response: &response{frame: frame}}
	new(conn).cancel(unread)
	equal(t, true, isZero(frame))
}

func TestGrowthLeavesNoCopies(t *testing.T) {
	bytes := []byte("secret")
	moved := withRoom(bytes, 100)
	if !isZero(bytes) || string(moved) != "secret" || cap(moved) < 106 {
		t.Fatal(bytes, moved)
	}
	for _, value := range []any{
		nil, true, "", strings.Repeat("x", 31), strings.Repeat("x", 32), strings.Repeat("x", 256), strings.Repeat("x", 1<<16),
		math.MinInt64, math.MaxInt64, -1,
		uint64(math.MaxUint64), new(big.Int).SetUint64(math.MaxUint64), big.NewInt(math.MinInt64), math.Pi, float32(0.5),
	} {
		room := make([]byte, 0, scalarSizeMax(value))
		encoded, err := appendScalar(room, value)
		must(t, err)
		if &encoded[0] != &room[:1][0] {
			t.Fatalf("%.20v: the library has moved the bytes", value)
		}
	}
}
