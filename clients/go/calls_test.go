package leafseal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func isEnvelope(value any) bool {
	text, isText := value.(string)
	return isText && strings.HasPrefix(text, "ev:") && strings.HasSuffix(text, ":$")
}

func same(t testing.TB, wanted, actual any) {
	t.Helper()
	if !reflect.DeepEqual(wanted, actual) {
		t.Fatalf("expected %.300v, received %.300v", wanted, actual)
	}
}

// Every call against a real engine: what goes in comes out, and errors have codes.
func TestCalls(t *testing.T) {
	engine := startEngine(t)
	client := engine.client(t)
	t.Run("values of every kind come back", func(t *testing.T) {
		values := []any{"4111111111111111", "", "Zoë 😀", "\ufffd", int64(0), int64(-1), 12.5, 1e300, int64(math.MaxInt64), int64(math.MinInt64), uint64(math.MaxUint64), true, false, nil}
		sealed, err := client.EncryptAll(background, values, EncryptOptions{})
		must(t, err)
		for index, envelope := range sealed[:len(sealed)-1] {
			if !isEnvelope(envelope) {
				t.Fatalf("%d: %v", index, envelope)
			}
		}
		opened, err := client.DecryptAll(background, sealed, DecryptOptions{})
		must(t, err)
		same(t, values, opened)
		others := []any{1, int8(2), int16(3), int32(4), uint(5), uint8(6), uint16(7), uint32(8), big.NewInt(9), float32(0.1), 1.0}
		sealed, err = client.EncryptAll(background, others, EncryptOptions{})
		must(t, err)
		opened, err = client.DecryptAll(background, sealed, DecryptOptions{})
		must(t, err)
		same(t, []any{int64(1), int64(2), int64(3), int64(4), int64(5), int64(6), int64(7), int64(8), int64(9), 0.1, int64(1)}, opened)
		none, err := client.EncryptAll(background, nil, EncryptOptions{})
		must(t, err)
		equal(t, 0, len(none))
		plain, err := client.Decrypt(background, "no envelope", DecryptOptions{})
		must(t, err)
		equal(t, any("no envelope"), plain)
		one, err := client.Encrypt(background, "one", EncryptOptions{})
		must(t, err)
		back, err := client.Decrypt(background, one, DecryptOptions{})
		must(t, err)
		equal(t, any("one"), back)
	})
	t.Run("lists of every length come back", func(t *testing.T) {
		for _, count := range []int{1, 15, 16, 17, 2000, 65535, 65536, 70000} {
			values := make([]any, count)
			for index := range values {
				values[index] = fmt.Sprint(strings.Repeat("x", index%40), index)
			}
			sealed, err := client.EncryptAll(background, values, EncryptOptions{Keying: "session"})
			must(t, err)
			opened, err := client.DecryptAll(background, sealed, DecryptOptions{})
			must(t, err)
			same(t, values, opened)
		}
		for _, length := range []int{31, 32, 255, 256, 65535, 65536, 3000000} {
			value := strings.Repeat("ä", length/2)
			sealed, err := client.Encrypt(background, value, EncryptOptions{})
			must(t, err)
			opened, err := client.Decrypt(background, sealed, DecryptOptions{})
			must(t, err)
			equal(t, any(value), opened)
		}
	})
	t.Run("roles, curves and keying reach the engine", func(t *testing.T) {
		sealed, err := client.EncryptAll(background, []any{"a", "b"}, EncryptOptions{Role: "support", Curve: "k1", Keying: "field"})
		must(t, err)
		texts := []string{sealed[0].(string), sealed[1].(string)}
		inspected, err := client.Inspect(background, texts, InspectOptions{App: testApp})
		must(t, err)
		equal(t, "support k1 string 1", fmt.Sprint(inspected[0].Role, " ", inspected[0].Curve, " ", inspected[0].Type, " ", inspected[0].KeyVersion))
		if bytes.Equal(inspected[0].Ephemeral, inspected[1].Ephemeral) || len(inspected[0].Ephemeral) != 33 || inspected[0].EncryptedAt.After(time.Now().Add(5*time.Second)) {
			t.Fatal(inspected)
		}
		_, err = client.DecryptAll(background, sealed, DecryptOptions{Role: "other"})
		expect(t, "forbidden", err)
		inspected, err = client.Inspect(background, texts, InspectOptions{})
		must(t, err)
		equal(t, "", inspected[1].Role)
	})
	t.Run("documents keep every other byte", func(t *testing.T) {
		text := []byte(`{ "amount": 1.50,  "id": 12345678901234567890, "card": {"number": "4111", "holder": "Zoë"}, "tags": ["a", null] }`)
		var report Report
		sealed, err := client.EncryptDocument(background, text, EncryptOptions{Select: []string{"$.card", "$.missing"}, OnReport: func(seen Report) { report = seen }})
		must(t, err)
		if !bytes.HasPrefix(sealed, []byte(`{ "amount": 1.50,  "id": 12345678901234567890, "card": {"number": "ev:`)) || bytes.Contains(sealed, []byte(`"4111"`)) {
			t.Fatal(string(sealed))
		}
		same(t, Report{Count: 2, Matched: []int64{2, 0}}, report)
		opened, err := client.DecryptDocument(background, sealed, DecryptOptions{})
		must(t, err)
		same(t, text, opened)
		for _, size := range []int{0, 100, 16000, 70000, 5000000} {
			large := []byte(`{"text":"` + strings.Repeat("x", size) + `"}`)
			sealed, err := client.EncryptDocument(background, large, EncryptOptions{})
			must(t, err)
			opened, err := client.DecryptDocument(background, sealed, DecryptOptions{})
			must(t, err)
			same(t, large, opened)
		}
	})
	t.Run("files come back", func(t *testing.T) {
		for _, size := range []int{0, 1, 5000, 10000000} {
			file := bytes.Repeat([]byte("f"), size)
			sealed, err := client.EncryptFile(background, file, EncryptOptions{Curve: "k1"})
			must(t, err)
			opened, err := client.DecryptFile(background, sealed, DecryptOptions{})
			must(t, err)
			if !bytes.Equal(file, opened) {
				t.Fatal(size)
			}
		}
		_, err := client.DecryptFile(background, []byte("no file"), DecryptOptions{})
		expect(t, "invalid_envelope", err)
	})
	t.Run("envelopes that do not open fail the call, or are left or replaced", func(t *testing.T) {
		sealed, err := client.EncryptAll(background, []any{"good", "other"}, EncryptOptions{})
		must(t, err)
		good, other := sealed[0].(string), []byte(sealed[1].(string))
		if position := len(other) - 6; other[position] == 'A' {
			other[position] = 'B'
		} else {
			other[position] = 'A'
		}
		bad := string(other)
		_, err = client.DecryptAll(background, []any{good, bad}, DecryptOptions{})
		failure := expect(t, "decrypt_failed", err)
		equal(t, 1, failure.Index)
		equal(t, RetryNever, failure.Retry)
		equal(t, true, failure.FromEngine)
		var report Report
		opened, err := client.DecryptAll(background, []any{good, bad}, DecryptOptions{OnFailure: "leave", OnReport: func(seen Report) { report = seen }})
		must(t, err)
		same(t, []any{"good", bad}, opened)
		same(t, []int64{1}, report.FailedIndexes)
		document := []byte(`{"good":"` + good + `","bad":"` + bad + `"}`)
		json, err := client.DecryptDocument(background, document, DecryptOptions{OnFailure: "null", OnReport: func(seen Report) { report = seen }})
		must(t, err)
		equal(t, `{"good":"good","bad":null}`, string(json))
		same(t, []string{"$['bad']"}, report.FailedPaths)
	})
	t.Run("rewrap, public keys, API keys, health, info", func(t *testing.T) {
		old, err := client.Encrypt(background, "a", EncryptOptions{})
		must(t, err)
		engine.run(t, "keys", "rotate", testApp)
		until(t, "the rotation is visible", func() bool {
			keys, err := client.PublicKeys(background, "")
			must(t, err)
			return keys.Version == 2 && len(keys.R1) == 33
		})
		renewed, count, err := client.Rewrap(background, []string{old}, RewrapOptions{Curve: "k1"})
		must(t, err)
		equal(t, int64(1), count)
		opened, err := client.Decrypt(background, renewed[0], DecryptOptions{})
		must(t, err)
		equal(t, any("a"), opened)
		mixed := []string{old, "ev:Tk9D:planted:$"}
		_, _, err = client.Rewrap(background, mixed, RewrapOptions{})
		expect(t, "invalid_envelope", err)
		var report Report
		left, count, err := client.Rewrap(background, mixed, RewrapOptions{OnFailure: "leave", OnReport: func(seen Report) { report = seen }})
		must(t, err)
		equal(t, int64(1), count)
		equal(t, mixed[1], left[1])
		same(t, []int64{1}, report.FailedIndexes)
		key := engine.run(t, "api-keys", "create", testApp, "--allow", "encrypt,decrypt")
		seen, err := client.Authenticate(background, key)
		must(t, err)
		slices.Sort(seen.Operations)
		same(t, []string{"decrypt", "encrypt"}, seen.Operations)
		_, err = client.Authenticate(background, "a wrong key")
		expect(t, "forbidden", err)
		health, err := client.Health(background)
		must(t, err)
		equal(t, "ok", health)
		info, err := client.Info(background)
		must(t, err)
		equal(t, "1", info["protocol"])
	})
	t.Run("every error has a code, and no error a value", func(t *testing.T) {
		secret := "a secret value"
		bare := engine.client(t, func(s *Settings) { s.App = "" })
		small := engine.client(t, func(s *Settings) { s.RequestSizeMax = 100 })
		tooLarge := new(big.Int).Lsh(big.NewInt(1), 64)
		list := func(client *Client, options EncryptOptions, values ...any) func() error {
			return func() error { _, err := client.EncryptAll(background, values, options); return err }
		}
		document := func(json string, options EncryptOptions) func() error {
			return func() error { _, err := client.EncryptDocument(background, []byte(json), options); return err }
		}
		for index, row := range []struct {
			code string
			call func() error
		}{
			{"invalid_params", list(client, EncryptOptions{}, secret, math.NaN())},
			{"invalid_params", list(client, EncryptOptions{}, float32(math.Inf(1)))},
			{"invalid_params", list(client, EncryptOptions{}, []string{secret})},
			{"invalid_params", list(client, EncryptOptions{}, tooLarge)},
			{"invalid_params", list(client, EncryptOptions{}, secret+"\xff")},
			{"invalid_params", list(client, EncryptOptions{Select: []string{"$.a"}}, secret)},
			{"invalid_params", list(client, EncryptOptions{Role: "\xff"}, secret)},
			{"invalid_params", list(client, EncryptOptions{Timeout: -1}, secret)},
			{"invalid_params", list(bare, EncryptOptions{}, secret)},
			{"too_large", list(small, EncryptOptions{}, strings.Repeat(secret, 100))},
			{"invalid_params", list(client, EncryptOptions{Curve: "p256"}, secret)},
			{"forbidden", list(client, EncryptOptions{App: "unknown"}, secret)},
			{"invalid_document", document(`{"a": "`+secret+`"`, EncryptOptions{})},
			{"invalid_selector", document("{}", EncryptOptions{Select: []string{"$.["}})},
			{"unmatched_selector", document("{}", EncryptOptions{Select: []string{"$.b"}, Strict: true})},
			{"ambiguous_name", document(`{"A":1}`, EncryptOptions{Select: []string{"$.a"}, OtherCase: "refuse"})},
			{"invalid_envelope", func() error { _, err := client.Inspect(background, []string{secret}, InspectOptions{}); return err }},
			{"invalid_params", func() error { _, err := client.EncryptFile(background, nil, EncryptOptions{Role: "a"}); return err }},
		} {
			err := row.call()
			if code(err) != row.code || strings.Contains(err.Error(), secret) {
				t.Errorf("%d: expected %s, received %v", index, row.code, err)
			}
		}
	})
	t.Run("the index of the element at fault", func(t *testing.T) {
		list := func(values ...any) error {
			_, err := client.EncryptAll(background, values, EncryptOptions{})
			return err
		}
		rewrap := func(envelopes ...string) error {
			_, _, err := client.Rewrap(background, envelopes, RewrapOptions{})
			return err
		}
		selecting := func(selectors ...string) error {
			_, err := client.EncryptDocument(background, []byte("{}"), EncryptOptions{Select: selectors})
			return err
		}
		for row, err := range []error{
			list(1, 2, math.NaN()), list("a", true, "\xff"), list(1, "a", []int{}), rewrap("a", "b", "\xff"), selecting("$.a", "$.b", "\xff"),
			selecting("$.a", "$.b", "$.["),
		} {
			var failure *Error
			if !errors.As(err, &failure) || failure.Index != 2 {
				t.Errorf("%d: expected index 2, received %+v", row, err)
			}
		}
		_, err := client.Encrypt(background, "a", EncryptOptions{Role: "\xff"})
		var failure *Error
		if !errors.As(err, &failure) || failure.Index != -1 {
			t.Errorf("expected no index, received %+v", err)
		}
	})
	t.Run("settings are checked and named", func(t *testing.T) {
		for name, change := range map[string]func(*Settings){
			"Addresses": at(), "CA": func(s *Settings) { s.CA = PEM{} }, "Timeout": func(s *Settings) { s.Timeout = -1 },
			"ConnectionsMax": func(s *Settings) { s.ConnectionsMax = -1 }, "BackoffMax": func(s *Settings) { s.BackoffMax = time.Millisecond },
			"RetriesMax": func(s *Settings) { s.RetriesMax = -2 }, "BytesInFlightMax": func(s *Settings) { s.BytesInFlightMax = -1 },
		} {
			_, err := New(engine.settings(change))
			if failure := expect(t, "invalid_settings", err); !strings.Contains(failure.Message, name) {
				t.Error(failure)
			}
		}
		for _, address := range []string{"a:b:c", "host:0", "host:65536", "host:+1", "", "host name", "[::1", "a/b", ":1"} {
			_, err := New(engine.settings(at(address)))
			expect(t, "invalid_settings", err)
		}
		_, err := New(engine.settings(at("[::1]", "host", "host:1", "1.2.3.4:5", "[::1]:5")))
		must(t, err)
	})
	t.Run("10,000 calls at once stay within the bounds", func(t *testing.T) {
		bounded := engine.client(t, func(s *Settings) { s.RequestsInFlightMax, s.ConnectionsMax, s.BytesInFlightMax = 16, 2, 1<<16 })
		var group sync.WaitGroup
		failures := make(chan error, 10000)
		for index := 0; index < 10000; index++ {
			group.Add(1)
			go func() {
				defer group.Done()
				value := fmt.Sprint("value ", index)
				sealed, err := bounded.Encrypt(background, value, EncryptOptions{})
				if err == nil {
					var opened any
					if opened, err = bounded.Decrypt(background, sealed, DecryptOptions{}); err == nil && opened != value {
						err = errors.New("another value")
					}
				}
				if err != nil {
					failures <- err
				}
			}()
		}
		finished := make(chan struct{})
		go func() {
			group.Wait()
			close(finished)
		}()
		most := 0
		for done := false; !done; {
			bounded.locked(func() {
				if len(bounded.open) > 2 {
					t.Error("too many connections")
				}
				for conn := range bounded.open {
					most = max(most, conn.inFlight)
				}
			})
			select {
			case <-finished:
				done = true
			case <-time.After(time.Millisecond):
			}
		}
		close(failures)
		for err := range failures {
			t.Fatal(err)
		}
		if most == 0 || most > 16 || bounded.bytesInFlight != 0 {
			t.Fatal(most, bounded.bytesInFlight)
		}
	})
	t.Run("more calls than may wait are refused", func(t *testing.T) {
		bounded := engine.client(t, func(s *Settings) { s.RequestsWaitingMax, s.RequestsInFlightMax, s.ConnectionsMax = 100, 4, 1 })
		codes := many(1000, func(int) error { _, err := bounded.Encrypt(background, "x", EncryptOptions{}); return err })
		if codes[""] < 100 || codes["busy"] == 0 || codes[""]+codes["busy"] != 1000 {
			t.Fatal(codes)
		}
		cancelled, cancel := context.WithCancel(background)
		cancel()
		_, err := bounded.Encrypt(cancelled, "x", EncryptOptions{})
		if expect(t, "cancelled", err); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}

// many makes calls at once, and counts the codes of their errors.
func many(count int, call func(index int) error) map[string]int {
	codes := map[string]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for index := 0; index < count; index++ {
		group.Add(1)
		go func() {
			defer group.Done()
			err := call(index)
			mu.Lock()
			defer mu.Unlock()
			codes[code(err)]++
		}()
	}
	group.Wait()
	return codes
}
