package leafseal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// conversation is a script of vectors/client, whose README describes the format.
type conversation struct {
	Name     string
	Settings struct {
		ConnectionsMax      int  `json:"connections_max"`
		RequestsInFlightMax int  `json:"requests_in_flight_max"`
		RetriesMax          *int `json:"retries_max"`
		BackoffMinMS        int  `json:"backoff_min_ms"`
		BackoffMaxMS        int  `json:"backoff_max_ms"`
		ConnectTimeoutMS    int  `json:"connect_timeout_ms"`
		RequestTimeoutMS    int  `json:"request_timeout_ms"`
		AbandonedTimeoutMS  int  `json:"abandoned_timeout_ms"`
	}
	Random    float64
	Addresses []struct {
		Name     string
		Attempts []scriptedAttempt
	}
	Calls []struct {
		At         int
		Method     string
		DeadlineMS int  `json:"deadline_ms"`
		CancelAt   *int `json:"cancel_at"`
	}
	Until  int
	Expect []string
}

// scriptedAttempt is the outcome of an attempt to connect.
type scriptedAttempt struct {
	Outcome string
	Answers []string
	Events  []string
}

func milliseconds(count int) time.Duration {
	return time.Duration(count) * time.Millisecond
}

// timed parses `MS WORD…`; ok is false for `never`.
func timed(text string) (after time.Duration, words []string, ok bool) {
	words = strings.Fields(text)
	count, err := strconv.Atoi(words[0])
	return milliseconds(count), words[1:], err == nil
}

// stage plays the engines of a conversation, and writes its transcript.
type stage struct {
	script   *conversation
	began    time.Time
	mu       sync.Mutex
	attempts []int
	lines    []transcriptLine
}

type transcriptLine struct {
	at   int64
	text string
}

func (s *stage) write(format string, arguments ...any) {
	at := time.Since(s.began).Milliseconds()
	s.mu.Lock()
	defer s.mu.Unlock()
	if at < int64(s.script.Until) {
		s.lines = append(s.lines, transcriptLine{at, fmt.Sprintf(format, arguments...)})
	}
}

func (s *stage) transcript() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.lines, func(a, b transcriptLine) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return strings.Compare(a.text, b.text)
	})
	lines := []string{}
	for _, line := range s.lines {
		lines = append(lines, fmt.Sprint(line.at, " ", line.text))
	}
	return lines
}

// connect is the network of the client.
func (s *stage) connect(ctx context.Context, index int) (connected, *Error) {
	address := s.script.Addresses[index]
	s.write("connect %s", address.Name)
	s.attempts[index]++
	number := s.attempts[index]
	attempt := address.Attempts[min(number, len(address.Attempts))-1]
	after, words, ok := timed(attempt.Outcome)
	if !ok {
		after = time.Hour
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return connected{}, newError(CodeConnectFailed, RetryElsewhere, ctx.Err(), "cancelled")
	}
	switch words[0] {
	case "refuse":
		return connected{}, newError(CodeConnectFailed, RetryElsewhere, nil, "refused")
	case "tls_failed":
		return connected{}, newError(CodeTLSFailed, RetryNever, nil, "refused")
	}
	name := fmt.Sprintf("%s#%d", address.Name, number)
	s.write("opened %s", name)
	ours, theirs := net.Pipe()
	engine := &scriptedEngine{stage: s, name: name, script: attempt, conn: ours, calls: map[uint32]string{}}
	go engine.read()
	for _, event := range attempt.Events {
		after, words, _ := timed(event)
		time.AfterFunc(after, func() { engine.event(words[0], words[1:]) })
	}
	record := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(index + 1)}), 1)
	return connected{record: record, raw: theirs, secure: theirs}, nil
}

// scriptedEngine is the engine's side of a connection.
type scriptedEngine struct {
	stage  *stage
	name   string
	script scriptedAttempt
	conn   net.Conn
	mu     sync.Mutex
	isOver bool
	count  int
	calls  map[uint32]string
}

func (e *scriptedEngine) send(message []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.isOver {
		e.conn.Write(message)
	}
}

// close sends a last message, if there is one, and closes the connection.
func (e *scriptedEngine) close(message []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.isOver {
		e.isOver = true
		e.conn.Write(message)
		e.conn.Close()
	}
}

func (e *scriptedEngine) event(what string, words []string) {
	notification := append(msgp.AppendString(fromHex("93 02"), what), 0x91)
	switch {
	case what == "close":
		e.close(nil)
	case what == "connection_error":
		e.close(append(notification, errorObject(words)...))
	case words[0] == "closed":
		e.close(msgp.AppendString(notification, words[0]))
	default:
		e.send(msgp.AppendString(notification, words[0]))
	}
}

// errorObject is that of `CODE` or `CODE retry_after MS`.
func errorObject(words []string) []byte {
	fields := map[string]any{"code": words[0], "message": "scripted", "retry": "later"}
	if len(words) == 3 {
		count, _ := strconv.Atoi(words[2])
		fields["retry_after_ms"] = count
	}
	object, err := msgp.AppendMapStrIntf(nil, fields)
	if err != nil {
		panic(err)
	}
	return object
}

func (e *scriptedEngine) read() {
	reader := msgp.NewReader(e.conn)
	for {
		value, err := reader.ReadIntf()
		if err != nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			if !e.isOver {
				e.isOver = true
				e.stage.write("close %s", e.name)
				e.conn.Close()
			}
			return
		}
		message := value.([]any)
		if normal(message[0]).(int64) == 2 {
			id := uint32(normal(message[2].([]any)[0]).(int64))
			e.stage.write("cancel %s on %s", e.calls[id], e.name)
			continue
		}
		e.request(uint32(normal(message[1]).(int64)), message[2].(string), message[3].([]any))
	}
}

func (e *scriptedEngine) request(id uint32, method string, parameters []any) {
	fields := parameters[0].(map[string]any)
	subject := method
	hasDeadline := fields["deadline_ms"] != nil
	if method == "encrypt" {
		subject = strings.TrimPrefix(fields["app"].(string), "call-")
		number, _ := strconv.Atoi(subject)
		// Every request of this client has a deadline: its time limit, if it has no other.
		hasDeadline = e.stage.script.Calls[number-1].DeadlineMS > 0
	}
	within := ""
	if hasDeadline {
		within = fmt.Sprint(" within ", normal(fields["deadline_ms"]))
	}
	e.calls[id] = subject
	e.stage.write("request %s%s on %s", subject, within, e.name)
	e.count++
	if len(e.script.Answers) == 0 {
		return
	}
	after, words, ok := timed(e.script.Answers[min(e.count, len(e.script.Answers))-1])
	if !ok {
		return
	}
	answer := msgp.AppendUint32(fromHex("94 01"), id)
	if words[0] == "ok" {
		answer = msgp.AppendString(append(msgp.AppendNil(answer), 0x82), "values")
		answer = msgp.AppendString(append(answer, 0x91), "ev:x:$")
		answer = msgp.AppendString(msgp.AppendString(answer, "status"), "ok")
	} else {
		answer = msgp.AppendNil(append(answer, errorObject(words)...))
	}
	time.AfterFunc(after, func() { e.send(answer) })
}

// call makes a call of the script, and writes its result.
func (s *stage) call(client *Client, index int) {
	call := s.script.Calls[index]
	time.Sleep(milliseconds(call.At))
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	if call.CancelAt != nil {
		defer time.AfterFunc(milliseconds(*call.CancelAt-call.At), cancel).Stop()
	}
	err := client.do(ctx, func() (request *request, err error) {
		if call.Method == "health" {
			request, err = client.encoder("health", call.DeadlineMS > 0).done()
		} else {
			request, err = client.encoder("encrypt", true).required("app", fmt.Sprint("call-", index+1)).values([]any{"x"})
		}
		if err == nil && call.DeadlineMS > 0 {
			request.deadline = time.Now().Add(milliseconds(call.DeadlineMS))
		}
		return request, err
	}, 0, func([]byte) *Error { return nil })
	result := code(err)
	var failure *Error
	if own := map[string]string{CodeCancelled: "cancelled", CodeDeadlineExceeded: "timeout"}[result]; errors.As(err, &failure) && !failure.FromEngine && own != "" {
		result = own
	} else if err == nil {
		result = "ok"
	}
	s.write("result %d %s", index+1, result)
}

func (s *stage) settings() Settings {
	of := s.script.Settings
	settings := Settings{
		CA: Content([]byte("unused")), Certificate: Content([]byte("unused")), Key: Content([]byte("unused")),
		ConnectionsMax: of.ConnectionsMax, RequestsInFlightMax: of.RequestsInFlightMax,
		BackoffMin: milliseconds(of.BackoffMinMS), BackoffMax: milliseconds(of.BackoffMaxMS), ConnectTimeout: milliseconds(of.ConnectTimeoutMS),
		Timeout: milliseconds(of.RequestTimeoutMS), AbandonedTimeout: milliseconds(of.AbandonedTimeoutMS),
	}
	if retries := of.RetriesMax; retries != nil {
		settings.RetriesMax = *retries
		if *retries == 0 {
			settings.RetriesMax = -1
		}
	}
	for _, address := range s.script.Addresses {
		settings.Addresses = append(settings.Addresses, address.Name)
	}
	return settings
}

// play returns what the client does in a conversation.
func play(t *testing.T, script *conversation) (transcript []string) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{script: script, began: time.Now(), attempts: make([]int, len(script.Addresses))}
		client, err := New(s.settings())
		must(t, err)
		client.network, client.random, client.nextAddress = s.connect, func() float64 { return script.Random }, 0
		var group sync.WaitGroup
		for index := range script.Calls {
			group.Go(func() { s.call(client, index) })
		}
		time.Sleep(milliseconds(script.Until))
		client.CloseNow()
		group.Wait()
		transcript = s.transcript()
	})
	return transcript
}

// check plays a conversation, and shows where it differs from the expected transcript.
func check(t *testing.T, source []byte) {
	var script conversation
	must(t, json.Unmarshal(source, &script))
	actual := play(t, &script)
	line := 0
	for line < min(len(actual), len(script.Expect)) && actual[line] == script.Expect[line] {
		line++
	}
	if line == len(actual) && line == len(script.Expect) {
		return
	}
	part := func(lines []string) string {
		return strings.Join(lines[min(line, len(lines)):min(line+5, len(lines))], "\n\t")
	}
	t.Errorf("%s: line %d differs after\n\t%s\nexpected\n\t%s\nfound\n\t%s", script.Name, line+1,
		strings.Join(script.Expect[max(0, line-5):line], "\n\t"), part(script.Expect), part(actual))
}

func TestConversations(t *testing.T) {
	files, err := filepath.Glob("../../vectors/client/conversations/*.json")
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no conversations")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			must(t, err)
			check(t, source)
		})
	}
}

// Generated ones, of `cargo xtask conversations`; tests/go/run.sh names the file.
func TestGeneratedConversations(t *testing.T) {
	path := os.Getenv("LEAFSEAL_CONVERSATIONS")
	if path == "" {
		t.Skip("LEAFSEAL_CONVERSATIONS names no file")
	}
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	count := 0
	for ; lines.Scan(); count++ {
		check(t, lines.Bytes())
	}
	must(t, lines.Err())
	t.Logf("%d conversations", count)
}
