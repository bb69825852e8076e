package leafseal

import (
	"bytes"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// answering sends bytes after the first request has arrived, and keeps the connection.
func answering(answer []byte) func(net.Conn) {
	return func(conn net.Conn) {
		conn.Read(make([]byte, 1<<12))
		conn.Write(answer)
		new(received).drain(conn)
	}
}

func outcomeOf(t testing.TB, engine *testEngine, answerSizeMax int, serve func(net.Conn)) error {
	bad := startPeer(t, engine, serve)
	client := engine.client(t, at(bad.address), func(s *Settings) { s.Timeout, s.RetriesMax, s.AnswerSizeMax = 20*time.Second, 1, answerSizeMax })
	defer client.CloseNow()
	return encrypt(client, background)
}

// Peers with a valid certificate that send anything, over real sockets. Every call ends with a code, and memory stays bounded.
func TestHostilePeers(t *testing.T) {
	engine := startEngine(t)
	values := "94 01 00 c0 81 a6 76616c756573 "
	t.Run("garbage", func(t *testing.T) {
		for _, message := range []string{
			"48545450 2f312e31 20343030 0d0a0d0a", "c1", "c7 00 00", "d4 00 00", "94 01 63 c0 80", "94 01 ce ffffffff c0 80", "94 01 ff c0 80",
			"94 01 cf ffffffffffffffff c0 80", "94 00 01 a4 696e666f 90", "93 01 00 c0", "95 01 00 c0 80 80", "92 02 a0", "93 02 01 90", "80", "00", "90",
			"a1 78", "dd ffffffff", "df ffffffff", "dd 01000001", strings.Repeat("91", 40), "94 01 00 c0 a1 78", "94 01 00 a1 78 c0", "94 01 00 80 c0",
			"94 01 00 81 a4 636f6465 01 c0", "94 01 00 c0 80", values + "90", values + "92 c0 c0", values + "91 a1 ff", values + "91 c4 01 00", "94 01 00 c0 81 01 a0",
			"93 02 b0 636f6e6e656374696f6e5f6572726f72 90", "93 02 b0 636f6e6e656374696f6e5f6572726f72 91 c0",
		} {
			if err := outcomeOf(t, engine, 1<<20, answering(fromHex(message))); code(err) != "protocol_error" {
				t.Errorf("%s: %v", message, err)
			}
		}
	})
	t.Run("cut connections", func(t *testing.T) {
		for _, serve := range []func(net.Conn){
			func(net.Conn) {}, func(conn net.Conn) { conn.Read(make([]byte, 1<<12)) },
			func(conn net.Conn) { conn.Read(make([]byte, 1<<12)); conn.Write(fromHex(values)) },
		} {
			if err := outcomeOf(t, engine, 1<<20, serve); code(err) != "connection_lost" && code(err) != "connect_failed" {
				t.Error(err)
			}
		}
	})
	t.Run("answers beyond the bound", func(t *testing.T) {
		var sent atomic.Int64
		err := outcomeOf(t, engine, 1<<16, func(conn net.Conn) {
			conn.Read(make([]byte, 1<<12))
			conn.Write(fromHex(values + "91 db 20000000"))
			for filler := bytes.Repeat([]byte("x"), 1<<14); ; {
				count, err := conn.Write(filler)
				if sent.Add(int64(count)); err != nil {
					return
				}
			}
		})
		if expect(t, "too_large", err); sent.Load() > 64<<20 {
			t.Fatal("the client reads on", sent.Load())
		}
		answer := append(fromHex(values+"91 da 0fa0"), bytes.Repeat([]byte("x"), 4000)...)
		expect(t, "too_large", outcomeOf(t, engine, len(answer)-1, answering(answer)))
		must(t, outcomeOf(t, engine, len(answer), answering(answer)))
		// The other requests on the connection fail with a retry.
		bad := startPeer(t, engine, func(conn net.Conn) {
			for seen := 0; seen < 200; {
				count, err := conn.Read(make([]byte, 1<<12))
				if seen += count; err != nil {
					return
				}
			}
			conn.Write(append(fromHex("94 01 01 c0 81 a6 76616c756573 91 db 20000000"), make([]byte, 1<<13)...))
			new(received).drain(conn)
		})
		client := engine.client(t, at(bad.address), func(s *Settings) { s.ConnectionsMax, s.AnswerSizeMax, s.RetriesMax = 1, 1<<12, -1 })
		codes := many(3, func(int) error {
			_, err := client.Encrypt(background, strings.Repeat("x", 100), EncryptOptions{})
			return err
		})
		if codes["too_large"] != 1 || codes["connection_lost"] != 2 {
			t.Fatal(codes)
		}
	})
	t.Run("byte by byte, and without an end", func(t *testing.T) {
		must(t, outcomeOf(t, engine, 1<<20, func(conn net.Conn) {
			conn.Read(make([]byte, 1<<12))
			for _, octet := range fromHex(values + "91 a3 61c3a4") {
				conn.Write([]byte{octet})
			}
			new(received).drain(conn)
		}))
		endless := startPeer(t, engine, func(conn net.Conn) {
			conn.Read(make([]byte, 1<<12))
			conn.Write(fromHex(values + "91 db 20000000"))
			for {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
		client := engine.client(t, at(endless.address), func(s *Settings) { s.Timeout, s.AbandonedTimeout = 200*time.Millisecond, 200*time.Millisecond })
		expect(t, "deadline_exceeded", encrypt(client, background))
		until(t, "the connection is given up", endless.isIdle)
	})
	t.Run("unknown notifications, fields and codes", func(t *testing.T) {
		notification := "93 02 a3 6e6577 91 a1 78 "
		answer := "94 01 00 c0 83 a3 6e6577 81 a1 78 91 c0 a6 76616c756573 91 a1 79 a5 6f74686572 c4 01 00"
		must(t, outcomeOf(t, engine, 1<<20, answering(fromHex(notification+answer))))
		failure := "94 01 00 84 a4 636f6465 a3 6e6577 a5 7265747279 a3 6e6577 a7 6d657373616765 a1 6d a6 6f6666736574 07 c0"
		seen := expect(t, "new", outcomeOf(t, engine, 1<<20, answering(fromHex(failure))))
		if seen.Retry != RetryNever || seen.Offset != 7 || seen.Index != -1 {
			t.Fatal(seen)
		}
	})
	t.Run("an engine that closes before it read a request gets it retried elsewhere", func(t *testing.T) {
		closed := append(append(fromHex("93 02 aa"), "going_away"...), append(fromHex("91 a6"), "closed"...)...)
		leaving := startPeer(t, engine, func(conn net.Conn) { conn.Read(make([]byte, 1<<12)); conn.Write(closed) })
		client := engine.client(t, at(leaving.address, engine.address))
		if codes := many(100, func(int) error { return encrypt(client, background) }); codes[""] != 100 {
			t.Fatal(codes)
		}
	})
	t.Run("a silent server, and one that does not read", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer silent.Close()
		client := engine.client(t, at(silent.Addr().String()), func(s *Settings) { s.ConnectTimeout, s.RetriesMax = 100*time.Millisecond, -1 })
		failure := expect(t, "connect_failed", encrypt(client, background))
		if !strings.Contains(failure.Message, "within 100ms") {
			t.Fatal(failure)
		}
		stop := make(chan struct{})
		defer close(stop)
		deaf := startPeer(t, engine, func(net.Conn) { <-stop })
		blocked := engine.client(t, at(deaf.address), func(s *Settings) { s.Timeout, s.AbandonedTimeout = 500*time.Millisecond, 300*time.Millisecond })
		_, err = blocked.EncryptFile(background, make([]byte, 32<<20), EncryptOptions{})
		expect(t, "deadline_exceeded", err)
		expect(t, "deadline_exceeded", encrypt(blocked, background))
		until(t, "the connections are given up", func() bool {
			blocked.mu.Lock()
			defer blocked.mu.Unlock()
			return len(blocked.open) == 0
		})
	})
}

// vector returns the bytes of the fenced block `hex NAME` of the protocol's page: two digits each, up to the `|` of a line.
func vector(t testing.TB, name string) []byte {
	page, err := os.ReadFile("../../docs/protocol.md")
	must(t, err)
	block := regexp.MustCompile("(?s)```hex " + name + "\n(.*?)```").FindSubmatch(page)
	var bytes []byte
	for _, line := range strings.Split(string(block[1]), "\n") {
		for _, octet := range strings.Fields(strings.Split(line, "|")[0]) {
			value, err := strconv.ParseUint(octet, 16, 8)
			must(t, err)
			bytes = append(bytes, byte(value))
		}
	}
	return bytes
}

// The vectors of docs/protocol.md.
func TestVectors(t *testing.T) {
	request, err := newEncoder("encrypt", 1000, true).required("app", "acme").values([]any{42, nil})
	must(t, err)
	var sent []byte
	for _, part := range [][]byte{start(7), request.head, deadline(500), request.tail} {
		sent = append(sent, part...)
	}
	decoded := func(bytes []byte) any {
		value, rest, err := msgp.ReadIntfBytes(bytes)
		must(t, err)
		equal(t, 0, len(rest))
		return value
	}
	same(t, normal(decoded(vector(t, "request"))), normal(decoded(sent)))
	answer, failure := parse(vector(t, "answer"))
	if failure != nil || answer.response.id != 7 || answer.response.err != nil {
		t.Fatal(answer, failure)
	}
	values, _, failure := readValues(answer.response.result, 2, readScalar)
	if failure != nil || !isEnvelope(values[0]) || values[1] != nil {
		t.Fatal(values, failure)
	}
	if _, _, failure = readValues(answer.response.result, 3, readScalar); failure == nil {
		t.Fatal("another number of values is accepted")
	}
	refused, failure := parse(vector(t, "error"))
	if failure != nil || refused.response.err.Code != "decrypt_failed" || refused.response.err.Index != 3 || refused.response.err.Retry != RetryNever {
		t.Fatal(refused, failure)
	}
}

// normal gives integers one type, so that encodings of different width are equal.
func normal(value any) any {
	switch value := value.(type) {
	case []any:
		for index := range value {
			value[index] = normal(value[index])
		}
	case map[string]any:
		for name := range value {
			value[name] = normal(value[name])
		}
	case uint64:
		return int64(value)
	}
	return value
}

// FuzzScanner compares the end of a value with the library's, whole and byte by byte.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{"94 01 07 c0 81 a1 61 01", "dc 0002 c0 c0", "de 0001 a1 61 90", "c4 02 00 00", "da 0001 61", "cb 0000000000000000", "dd 01000001"} {
		f.Add(fromHex(seed))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		var whole, single scanner
		end, err := whole.scan(bytes)
		rest, expected := msgp.Skip(bytes)
		if err == nil && (end >= 0) != (expected == nil) || (err == nil && end >= 0 && end != len(bytes)-len(rest)) {
			t.Fatal(end, err, len(bytes)-len(rest), expected)
		}
		for index := range bytes {
			stop, failure := single.scan(bytes[index : index+1])
			if failure != nil {
				equal(t, err, failure)
				return
			}
			if stop == 1 {
				equal(t, end, index+1)
				return
			}
		}
		equal(t, -1, end)
	})
}
