package leafseal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
)

var codesOfLoss = map[string]bool{"": true, "connection_lost": true, "connect_failed": true, "going_away": true, "unavailable": true}

func encrypt(client *Client, ctx context.Context) error {
	_, err := client.Encrypt(ctx, "x", EncryptOptions{})
	return err
}

func repeated(value any, count int) []any {
	values := make([]any, count)
	for index := range values {
		values[index] = value
	}
	return values
}

func roundTrip(client *Client, values []any) error {
	sealed, err := client.EncryptAll(background, values, EncryptOptions{})
	if err != nil {
		return err
	}
	opened, err := client.DecryptAll(background, sealed, DecryptOptions{})
	if err == nil && fmt.Sprint(opened) != fmt.Sprint(values) {
		err = errors.New("other values")
	}
	return err
}

func TestAnEngineKilledInTheMiddle(t *testing.T) {
	victim := startEngine(t)
	client := victim.client(t, func(s *Settings) { s.RetriesMax = 2 })
	must(t, encrypt(client, background))
	values := repeated("a value of some length", 20000)
	go func() {
		until(t, "requests are in flight", func() bool { client.mu.Lock(); defer client.mu.Unlock(); return client.bytesInFlight > 1<<20 })
		victim.kill()
	}()
	codes := many(20, func(int) error {
		_, err := client.EncryptAll(background, values, EncryptOptions{Keying: "field"})
		return err
	})
	for code := range codes {
		if !codesOfLoss[code] {
			t.Fatal(codes)
		}
	}
	if codes[""] == 20 {
		t.Fatal("the kill was not noticed")
	}
	<-victim.exited
	startEngineIn(t, victim.folder, victim.port())
	until(t, "the client reconnects", func() bool { return encrypt(client, background) == nil })
}

func TestNoCallIsLostWhenOneOfTwoEnginesRestarts(t *testing.T) {
	first := startEngine(t, "server.drain_delay=1s")
	folder := t.TempDir()
	must(t, exec.Command("cp", "-r", filepath.Join(first.folder, "store"), folder).Run())
	second := startEngineIn(t, folder, 0, "server.drain_delay=1s")
	var opened sync.Map
	client := first.client(t, at(first.address, second.address), func(s *Settings) {
		s.OnConnection = func(address string, isOpen bool, _ *Error) {
			if isOpen {
				opened.Store(address, true)
			}
		}
	})
	uses := func(address string) func() bool {
		return func() bool { _, found := opened.Load(address); return found }
	}
	var isOver atomic.Bool
	var done atomic.Int64
	result := make(chan map[string]int)
	go func() {
		result <- many(8, func(int) error {
			for !isOver.Load() {
				if err := roundTrip(client, []any{"value"}); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}()
	until(t, "both engines are used", func() bool { return uses(first.address)() && uses(second.address)() && done.Load() > 50 })
	second.stop()
	before := done.Load()
	until(t, "calls go on", func() bool { return done.Load() > before+50 })
	opened.Delete(second.address)
	startEngineIn(t, folder, second.port())
	first.stop()
	until(t, "the restarted engine is used again", uses(second.address))
	before = done.Load()
	until(t, "calls go on", func() bool { return done.Load() > before+50 })
	isOver.Store(true)
	if codes := <-result; codes[""] != 8 {
		t.Fatal(codes)
	}
}

func TestADeadAddressIsSkipped(t *testing.T) {
	engine := startEngine(t)
	var failed atomic.Int64
	client := engine.client(t, at("127.0.0.1:1", engine.address, "127.0.0.1:2"), func(s *Settings) {
		s.BackoffMin, s.BackoffMax = time.Minute, time.Minute
		s.OnConnection = func(address string, isOpen bool, err *Error) {
			if err != nil && err.Code == CodeConnectFailed {
				failed.Add(1)
			}
		}
	})
	for round := 0; round < 5; round++ {
		if codes := many(100, func(int) error { return encrypt(client, background) }); codes[""] != 100 {
			t.Fatal(codes)
		}
	}
	// Two connections, and at most two attempts before each.
	if failed.Load() > 4 {
		t.Fatal("a dead address is tried for each call")
	}
	// A name with several records, of which 127.0.0.1 is one.
	named := engine.client(t, at(fmt.Sprint("localhost:", engine.port())), func(s *Settings) { s.ServerName = "127.0.0.1" })
	must(t, encrypt(named, background))
	unknown := engine.client(t, at("name.invalid"), func(s *Settings) { s.RetriesMax = 1 })
	expect(t, "connect_failed", encrypt(unknown, background))
}

func TestCertificates(t *testing.T) {
	engine, other := startEngine(t), startEngine(t)
	folder := t.TempDir()
	for index, change := range []func(*Settings){
		func(s *Settings) { s.CA = File(other.file("ca.pem")) },
		func(s *Settings) { s.Certificate, s.Key = File(other.file("dev.pem")), File(other.file("dev.key")) },
		func(s *Settings) { s.Certificate = File(other.file("dev.pem")) },
		func(s *Settings) { s.Key = File(filepath.Join(folder, "no such file")) },
		func(s *Settings) { s.Key = File(engine.file("dev.pem")) },
		func(s *Settings) { s.ServerName = "another.example" },
		func(s *Settings) {
			s.CA = Content([]byte("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----"))
		},
		at(startPeer(t, engine, func(conn net.Conn) { conn.Read(make([]byte, 1)) }, "http/1.1").address),
	} {
		_, err := Connect(background, engine.settings(change))
		if failure := expect(t, "tls_failed", err); failure.Retry != RetryNever {
			t.Error(index, failure)
		}
	}
	other.run(t, "keys", "create", "other")
	other.run(t, "certs", "issue", "stranger", "--app", "other", "--allow", "encrypt")
	stranger := other.client(t, func(s *Settings) {
		s.Certificate, s.Key = File(other.file("stranger.pem")), File(other.file("stranger.key"))
	})
	expect(t, "forbidden", encrypt(stranger, background))

	// Files are read again for each connection.
	certificate, key := filepath.Join(folder, "client.pem"), filepath.Join(folder, "client.key")
	must(t, os.WriteFile(certificate, []byte("nothing yet"), 0o600))
	must(t, os.WriteFile(key, []byte("nothing yet"), 0o600))
	renewing := engine.client(t, func(s *Settings) {
		s.Certificate, s.Key, s.BackoffMin, s.BackoffMax = File(certificate), File(key), time.Millisecond, time.Millisecond
	})
	expect(t, "tls_failed", encrypt(renewing, background))
	for from, to := range map[string]string{engine.file("dev.pem"): certificate, engine.file("dev.key"): key} {
		content, err := os.ReadFile(from)
		must(t, err)
		must(t, os.WriteFile(to, content, 0o600))
	}
	until(t, "the new files are used", func() bool { return encrypt(renewing, background) == nil })
}

// received collects what a silent peer reads.
type received struct {
	mu    sync.Mutex
	bytes []byte
}

func (r *received) drain(conn net.Conn) {
	buffer := make([]byte, 1<<16)
	for {
		count, err := conn.Read(buffer)
		r.mu.Lock()
		r.bytes = append(r.bytes, buffer[:count]...)
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (r *received) has(word string) func() bool {
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return bytes.Contains(r.bytes, []byte(word))
	}
}

func TestACancelledContextSendsCancel(t *testing.T) {
	engine := startEngine(t)
	var seen received
	silent := startPeer(t, engine, seen.drain)
	client := engine.client(t, at(silent.address), func(s *Settings) { s.AbandonedTimeout = 100 * time.Millisecond })
	ctx, cancel := context.WithCancel(background)
	result := make(chan error, 1)
	go func() { result <- encrypt(client, ctx) }()
	until(t, "the request arrives", seen.has("encrypt"))
	cancel()
	err := <-result
	if expect(t, "cancelled", err); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	until(t, "cancel arrives", seen.has("cancel"))
	until(t, "a connection that does not answer is closed", silent.isIdle)
	limited, stop := context.WithTimeout(background, 200*time.Millisecond)
	defer stop()
	err = encrypt(client, limited)
	if failure := expect(t, "deadline_exceeded", err); failure.Retry != RetryLater || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	_, err = client.Encrypt(background, "x", EncryptOptions{Timeout: 20 * time.Millisecond})
	expect(t, "deadline_exceeded", err)
	real := engine.client(t)
	must(t, encrypt(real, background))
	_, err = real.EncryptAll(background, repeated(strings.Repeat("x", 32), 300000), EncryptOptions{Keying: "field", Timeout: 60 * time.Millisecond})
	expect(t, "deadline_exceeded", err)
	must(t, encrypt(real, background))
}

func TestACancelledCallLeavesItsSlice(t *testing.T) {
	engine := startEngine(t)
	var seen received
	arrived, resume := make(chan struct{}), make(chan struct{})
	slow := startPeer(t, engine, func(conn net.Conn) {
		first := make([]byte, 1<<10)
		count, _ := conn.Read(first)
		seen.bytes = first[:count]
		close(arrived)
		<-resume
		seen.drain(conn)
	})
	client := engine.client(t, at(slow.address), func(s *Settings) { s.ConnectionsMax, s.AbandonedTimeout = 1, time.Hour })
	// More than the sockets buffer.
	file := bytes.Repeat([]byte("a"), 32<<20)
	ctx, cancel := context.WithCancel(background)
	result := make(chan error, 1)
	go func() {
		_, err := client.EncryptFile(ctx, file, EncryptOptions{Timeout: time.Hour})
		result <- err
	}()
	<-arrived
	cancel()
	expect(t, "cancelled", <-result)
	for index := range file {
		file[index] = 'b'
	}
	close(resume)
	until(t, "the message and its cancellation arrive", seen.has("cancel"))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	message, rest, err := msgp.ReadIntfBytes(seen.bytes)
	must(t, err)
	data := message.([]any)[3].([]any)[0].(map[string]any)["data"].([]byte)
	if len(data) != len(file) || bytes.IndexByte(data, 'b') >= 0 || !bytes.HasPrefix(rest, fromHex("93 02 a6")) {
		t.Fatal("another message is sent", len(data), len(rest))
	}
}

func TestCancellationsAtRandomMoments(t *testing.T) {
	engine := startEngine(t)
	client := engine.client(t, func(s *Settings) { s.RequestsInFlightMax = 8 })
	codes := many(2000, func(index int) error {
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		if index%2 == 1 {
			time.AfterFunc(time.Duration(rand.IntN(50))*time.Millisecond, cancel)
		}
		values := repeated(fmt.Sprint(index), index%200)
		sealed, err := client.EncryptAll(ctx, values, EncryptOptions{})
		if err != nil {
			if index%2 == 0 || code(err) != "cancelled" {
				return fmt.Errorf("%d: %w", index, err)
			}
			return nil
		}
		opened, err := client.DecryptAll(background, sealed, DecryptOptions{})
		if err == nil && fmt.Sprint(opened) != fmt.Sprint(values) {
			return errors.New("other values")
		}
		return err
	})
	if codes[""] != 2000 || client.CallsInFlight() != 0 || client.bytesInFlight != 0 || client.bytesWaiting != 0 {
		t.Fatal(codes, client.bytesInFlight, client.bytesWaiting)
	}
	// Calls that wait behind one that does not move may all be cancelled.
	busy := engine.client(t, func(s *Settings) { s.ConnectionsMax, s.RequestsInFlightMax = 1, 1 })
	ctx, cancel := context.WithCancel(background)
	time.AfterFunc(20*time.Millisecond, cancel)
	many(5000, func(int) error { return encrypt(busy, ctx) })
	must(t, encrypt(busy, background))
}

func TestAnOverloadedEngineIsRetriedWithinBounds(t *testing.T) {
	small := startEngine(t, "server.app_jobs_max=1", "server.admission_wait=0s")
	var retried atomic.Int64
	client := small.client(t, func(s *Settings) {
		s.ConnectionsMax = 8
		s.OnRetry = func(method string, err *Error) { retried.Add(1) }
	})
	values := repeated("x", 5000)
	codes := many(300, func(int) error {
		_, err := client.EncryptAll(background, values, EncryptOptions{Keying: "field"})
		return err
	})
	if codes[""] == 0 || codes[""]+codes["overloaded"] != 300 || retried.Load() == 0 || retried.Load() > 10+300/10 {
		t.Fatal(codes, retried.Load())
	}
}

func TestClose(t *testing.T) {
	engine := startEngine(t)
	client := engine.client(t)
	result := make(chan map[string]int)
	go func() { result <- many(500, func(int) error { return encrypt(client, background) }) }()
	until(t, "calls are under way", func() bool { return client.CallsInFlight() > 0 })
	client.Close()
	if codes := <-result; codes[""]+codes["closed"] != 500 || codes[""] == 0 {
		t.Fatal(codes)
	}
	expect(t, "closed", encrypt(client, background))
	client.Close()
	forced := engine.client(t)
	go func() { result <- many(500, func(int) error { return encrypt(forced, background) }) }()
	until(t, "calls are under way", func() bool { return forced.CallsInFlight() > 0 })
	forced.CloseNow()
	if codes := <-result; codes[""]+codes["closed"] != 500 {
		t.Fatal(codes)
	}
	// Nothing listens there: the call waits for the next attempt, and a forced close does not.
	lost := engine.client(t, at("127.0.0.1:1"), func(s *Settings) { s.BackoffMin, s.BackoffMax, s.Timeout = 5*time.Minute, 5*time.Minute, time.Hour })
	go func() { result <- many(1, func(int) error { return encrypt(lost, background) }) }()
	time.Sleep(200 * time.Millisecond)
	lost.CloseNow()
	if codes := <-result; codes["closed"] != 1 {
		t.Fatal(codes)
	}
}

func TestOnlyFailedAttemptsCountAsRetries(t *testing.T) {
	engine := startEngine(t)
	var attempts atomic.Int64
	nowhere := func(s *Settings) {
		s.Addresses = []string{"127.0.0.1:1"}
		s.OnConnection = func(string, bool, *Error) { attempts.Add(1) }
	}
	// After the first attempt nothing happens but that calls arrive.
	client := engine.client(t, nowhere, func(s *Settings) { s.BackoffMin, s.BackoffMax, s.Timeout = time.Hour, time.Hour, 3*time.Hour })
	result := make(chan error, 21)
	start := func() { go func() { result <- encrypt(client, background) }() }
	start()
	until(t, "the attempt has failed", func() bool { return attempts.Load() == 1 })
	for range 20 {
		start()
	}
	until(t, "all calls have begun", func() bool { return client.CallsInFlight() == 21 })
	client.CloseNow()
	for range 21 {
		expect(t, "closed", <-result)
	}
	equal(t, 1, attempts.Load())
	// Those that fail do count.
	client = engine.client(t, nowhere, func(s *Settings) { s.BackoffMin, s.BackoffMax, s.RetriesMax = time.Millisecond, time.Millisecond, 2 })
	expect(t, "connect_failed", encrypt(client, background))
	client.locked(func() {
		if client.dialFailures < 3 {
			t.Error(client.dialFailures)
		}
	})
}
