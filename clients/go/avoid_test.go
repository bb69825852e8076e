package leafseal

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// serving reads requests and passes each to handle.
func serving(handle func(conn net.Conn, id uint32, method string)) func(net.Conn) {
	return func(conn net.Conn) {
		reader := msgp.NewReader(conn)
		for {
			if _, err := reader.ReadArrayHeader(); err != nil {
				return
			}
			if kind, err := reader.ReadUint8(); err != nil || kind != 0 {
				return
			}
			id, _ := reader.ReadUint32()
			method, _ := reader.ReadString()
			if reader.Skip() != nil {
				return
			}
			handle(conn, id, method)
		}
	}
}

func refuse(conn net.Conn, id uint32) {
	answer := msgp.AppendUint32(fromHex("94 01"), id)
	answer = msgp.AppendString(msgp.AppendString(append(answer, 0x82), "code"), "unavailable")
	answer = msgp.AppendString(msgp.AppendString(answer, "retry"), "elsewhere")
	conn.Write(msgp.AppendNil(answer))
}

func accept(conn net.Conn, id uint32) {
	answer := msgp.AppendNil(msgp.AppendUint32(fromHex("94 01"), id))
	answer = msgp.AppendString(append(answer, 0x82), "values")
	answer = msgp.AppendString(append(answer, 0x91), "ev:x:$")
	conn.Write(msgp.AppendString(msgp.AppendString(answer, "status"), "ok"))
}

// startRefusing starts a peer that refuses every request and counts them.
func startRefusing(t testing.TB, engine *testEngine) (*peer, *atomic.Int64) {
	var count atomic.Int64
	return startPeer(t, engine, serving(func(conn net.Conn, id uint32, _ string) {
		count.Add(1)
		refuse(conn, id)
	})), &count
}

// connectTo opens a connection to each of a client's first engines, in order.
func connectTo(t testing.TB, client *Client, count int) {
	client.locked(func() { client.turn = 0 })
	for index := range count {
		client.locked(client.grow)
		until(t, "the connection is open", func() bool {
			client.mu.Lock()
			defer client.mu.Unlock()
			return client.engines()[index].usable() > 0
		})
	}
}

func TestAnEngineThatRefusesIsALastResort(t *testing.T) {
	engine := startEngine(t)
	refusing, count := startRefusing(t, engine)
	t.Run("calls go to another", func(t *testing.T) {
		client := engine.client(t, at(refusing.address, engine.address))
		connectTo(t, client, 2)
		for range 60 {
			must(t, encrypt(client, background))
		}
		if count.Load() == 0 {
			t.Fatal("the refusing engine was not asked")
		}
		refuser := client.engines()[0]
		set := func(until time.Time) { client.locked(func() { refuser.refusedUntil = until }) }
		set(time.Now().Add(time.Hour))
		before := count.Load()
		if codes := many(200, func(int) error { return encrypt(client, background) }); codes[""] != 200 || count.Load() != before {
			t.Fatal(codes, count.Load()-before)
		}
		set(time.Time{})
		must(t, encrypt(client, background))
		equal(t, before+1, count.Load())
	})
	t.Run("a connection to another is opened", func(t *testing.T) {
		client := engine.client(t, at(refusing.address, engine.address), func(s *Settings) { s.RetriesMax = 9 })
		connectTo(t, client, 1)
		must(t, encrypt(client, background))
	})
	t.Run("many calls are moved, whatever the limit on retries", func(t *testing.T) {
		client := engine.client(t, at(refusing.address, engine.address))
		connectTo(t, client, 1)
		if codes := many(100, func(int) error { return encrypt(client, background) }); codes[""] != 100 {
			t.Fatal(codes)
		}
	})
	t.Run("it is used if there is no other", func(t *testing.T) {
		second, countOfSecond := startRefusing(t, engine)
		for _, addresses := range [][]string{{refusing.address}, {refusing.address, second.address}, {refusing.address, "127.0.0.1:1"}} {
			client := engine.client(t, at(addresses...), func(s *Settings) { s.RetriesMax, s.BackoffMin = 3, time.Millisecond })
			before := count.Load() + countOfSecond.Load()
			expect(t, "unavailable", encrypt(client, background))
			equal(t, before+4, count.Load()+countOfSecond.Load())
		}
	})
	t.Run("it is used again after its time, though a connection to another is being opened", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer silent.Close()
		var asked atomic.Int64
		recovering := startPeer(t, engine, serving(func(conn net.Conn, id uint32, _ string) {
			if asked.Add(1) == 1 {
				refuse(conn, id)
			} else {
				accept(conn, id)
			}
		}))
		client := engine.client(t, at(recovering.address, silent.Addr().String()), func(s *Settings) { s.ConnectTimeout = time.Hour })
		connectTo(t, client, 1)
		_, err = client.Encrypt(background, "x", EncryptOptions{Timeout: time.Minute})
		must(t, err)
		equal(t, 2, asked.Load())
	})
	t.Run("it is used again after a success", func(t *testing.T) {
		var seen sync.Once
		arrived, resume := make(chan struct{}), make(chan struct{})
		mixed := startPeer(t, engine, serving(func(conn net.Conn, id uint32, method string) {
			isFirst := false
			seen.Do(func() { isFirst = true })
			switch {
			case isFirst:
				close(arrived)
				go func() { <-resume; accept(conn, id) }()
			case method == "health":
				accept(conn, id)
			default:
				refuse(conn, id)
			}
		}))
		// The pause before a retry exceeds the time limit.
		client := engine.client(t, at(mixed.address), func(s *Settings) {
			s.ConnectionsMax, s.Timeout, s.BackoffMin, s.BackoffMax = 1, 2*time.Minute, 10*time.Minute, 10*time.Minute
		})
		result := make(chan error, 1)
		go func() { result <- encrypt(client, background) }()
		<-arrived
		expect(t, "unavailable", encrypt(client, background))
		_, err := client.Health(background)
		must(t, err)
		isRefused := func() bool {
			client.mu.Lock()
			defer client.mu.Unlock()
			return client.engines()[0].refusedUntil.After(time.Now())
		}
		equal(t, true, isRefused())
		close(resume)
		must(t, <-result)
		equal(t, false, isRefused())
	})
}
