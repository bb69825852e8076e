package leafseal

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const testApp = "app_dev"

var background = context.Background()

// testEngine is a running engine with an app and certificates of its own, started as `leafseal dev` starts one.
type testEngine struct {
	folder, address string
	process         *exec.Cmd
	exited          chan struct{}
}

func program(t testing.TB) string {
	path := os.Getenv("LEAFSEAL")
	if path == "" {
		t.Fatal("set LEAFSEAL to the absolute path of the program, as tests/go/run.sh does")
	}
	return path
}

func startEngine(t testing.TB, settings ...string) *testEngine {
	return startEngineIn(t, t.TempDir(), 0, settings...)
}

// startEngineIn starts an engine with the store in a folder, if there is one, on this port or any.
func startEngineIn(t testing.TB, folder string, port int, settings ...string) *testEngine {
	t.Helper()
	arguments := []string{"--dir", filepath.Join(folder, "store"), "dev", "--app", testApp, "--port", strconv.Itoa(port), "--no-relay", "--json"}
	for _, setting := range append([]string{"operator.address=127.0.0.1:0", "api.address=127.0.0.1:0"}, settings...) {
		arguments = append(arguments, "--set", setting)
	}
	command := exec.Command(program(t), arguments...)
	var log strings.Builder
	command.Stderr = &log
	output, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		command.Wait()
		t.Fatalf("the engine did not start: %s", log.String())
	}
	var started struct{ Address string }
	must(t, json.Unmarshal(line, &started))
	engine := &testEngine{folder: folder, address: started.Address, process: command, exited: make(chan struct{})}
	go func() {
		command.Wait()
		close(engine.exited)
	}()
	t.Cleanup(engine.stop)
	return engine
}

func (e *testEngine) stop() {
	e.process.Process.Signal(syscall.SIGTERM)
	<-e.exited
}

func (e *testEngine) kill() {
	e.process.Process.Kill()
	<-e.exited
}

func (e *testEngine) port() int {
	_, port, _ := net.SplitHostPort(e.address)
	number, _ := strconv.Atoi(port)
	return number
}

func (e *testEngine) file(name string) string {
	return filepath.Join(e.folder, "store", "certs", name)
}

func (e *testEngine) run(t testing.TB, arguments ...string) string {
	t.Helper()
	output, err := exec.Command(program(t), append([]string{"--dir", filepath.Join(e.folder, "store")}, arguments...)...).Output()
	must(t, err)
	return strings.TrimSpace(string(output))
}

// client returns a client of the engine, which is closed after the test.
func (e *testEngine) client(t testing.TB, changes ...func(*Settings)) *Client {
	t.Helper()
	client, err := New(e.settings(changes...))
	must(t, err)
	t.Cleanup(client.CloseNow)
	return client
}

func (e *testEngine) settings(changes ...func(*Settings)) Settings {
	settings := Settings{
		Addresses: []string{e.address}, CA: File(e.file("ca.pem")), Certificate: File(e.file("dev.pem")), Key: File(e.file("dev.key")), App: testApp,
	}
	for _, change := range changes {
		change(&settings)
	}
	return settings
}

func at(addresses ...string) func(*Settings) {
	return func(s *Settings) { s.Addresses = addresses }
}

// peer is a TLS server with the engine's certificate that handles connections as it likes.
type peer struct {
	address string
	mu      sync.Mutex
	open    int
}

func startPeer(t testing.TB, engine *testEngine, serve func(conn net.Conn), protocols ...string) *peer {
	t.Helper()
	if len(protocols) == 0 {
		protocols = []string{alpn}
	}
	certificate, err := tls.LoadX509KeyPair(engine.file("server.pem"), engine.file("server.key"))
	must(t, err)
	return startPeerWith(t, func() *tls.Certificate { return &certificate }, serve, protocols...)
}

// startPeerWith starts a peer that shows this certificate on each new connection.
func startPeerWith(t testing.TB, certificate func() *tls.Certificate, serve func(conn net.Conn), protocols ...string) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	show := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(), nil }
	config := &tls.Config{GetCertificate: show, NextProtos: protocols, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	p := &peer{address: listener.Addr().String()}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			p.count(1)
			go func() {
				defer p.count(-1)
				defer raw.Close()
				conn := tls.Server(raw, config)
				if conn.Handshake() == nil {
					serve(conn)
				}
			}()
		}
	}()
	return p
}

func (p *peer) count(change int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open += change
}

func (p *peer) isIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open == 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// code returns the code of an error, or "" for nil.
func code(err error) string {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Code
	}
	if err != nil {
		return "not an *Error: " + err.Error()
	}
	return ""
}

func expect(t testing.TB, wanted string, err error) *Error {
	t.Helper()
	if code(err) != wanted {
		t.Fatalf("expected %q, received %v", wanted, err)
	}
	var failure *Error
	errors.As(err, &failure)
	return failure
}

func equal[T comparable](t testing.TB, wanted, actual T) {
	t.Helper()
	if wanted != actual {
		t.Fatalf("expected %v, received %v", wanted, actual)
	}
}

func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for tries := 0; tries < 6000; tries++ {
		if condition() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func fromHex(digits string) []byte {
	bytes, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	if err != nil {
		panic(err)
	}
	return bytes
}
