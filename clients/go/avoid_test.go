package leafseal

import (
	"net"
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

// startingWith is an engine's client whose first connection leads to the first of these addresses.
func startingWith(t testing.TB, engine *testEngine, addresses []string, changes ...func(*Settings)) *Client {
	client := engine.client(t, append(changes, at(addresses...))...)
	client.nextAddress = 0
	return client
}

// Over real sockets; vectors/client has the cases.
func TestAnEngineThatRefusesIsALastResort(t *testing.T) {
	engine := startEngine(t)
	refusing, count := startRefusing(t, engine)
	t.Run("calls go to another", func(t *testing.T) {
		client := startingWith(t, engine, []string{refusing.address, engine.address})
		for range 60 {
			must(t, encrypt(client, background))
		}
		equal(t, 1, count.Load())
	})
	t.Run("many calls are moved, whatever the limit on retries", func(t *testing.T) {
		client := startingWith(t, engine, []string{refusing.address, engine.address}, func(s *Settings) { s.RetriesMax = 1 })
		if codes := many(100, func(int) error { return encrypt(client, background) }); codes[""] != 100 {
			t.Fatal(codes)
		}
	})
	t.Run("it is used if there is no other", func(t *testing.T) {
		second, countOfSecond := startRefusing(t, engine)
		for _, addresses := range [][]string{{refusing.address}, {refusing.address, second.address}, {refusing.address, "127.0.0.1:1"}} {
			client := startingWith(t, engine, addresses, func(s *Settings) { s.RetriesMax, s.BackoffMin = 3, time.Millisecond })
			before := count.Load() + countOfSecond.Load()
			expect(t, "unavailable", encrypt(client, background))
			equal(t, before+4, count.Load()+countOfSecond.Load())
		}
	})
	t.Run("it is used again after a success", func(t *testing.T) {
		var requests atomic.Int64
		mixed := startPeer(t, engine, serving(func(conn net.Conn, id uint32, method string) {
			if method != "health" && requests.Add(1) < 4 {
				refuse(conn, id)
			} else {
				accept(conn, id)
			}
		}))
		client := engine.client(t, at(mixed.address), func(s *Settings) { s.ConnectionsMax, s.RetriesMax, s.BackoffMin = 1, 2, time.Millisecond })
		isAvoided := func() bool {
			client.mu.Lock()
			defer client.mu.Unlock()
			return len(client.avoided) == 1
		}
		expect(t, "unavailable", encrypt(client, background))
		equal(t, true, isAvoided())
		_, err := client.Health(background)
		must(t, err)
		equal(t, true, isAvoided())
		must(t, encrypt(client, background))
		equal(t, false, isAvoided())
	})
}
