package leafseal

import (
	"crypto/tls"
	"strings"
	"testing"
)

// agreed returns the group that the client's configuration agrees on with an engine, after change.
func agreed(t *testing.T, engine *testEngine, change func(*tls.Config)) (tls.CurveID, error) {
	t.Helper()
	config, failure := engine.client(t).tlsConfig("localhost")
	if failure != nil {
		t.Fatal(failure)
	}
	change(config)
	conn, err := tls.Dial("tcp", engine.address, config)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ConnectionState().CurveID, nil
}

func older(config *tls.Config) { config.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256} }

func TestKeyExchangeIsHybridAndFallsBack(t *testing.T) {
	engine := startEngine(t)
	group, err := agreed(t, engine, func(*tls.Config) {})
	must(t, err)
	equal(t, tls.X25519MLKEM768, group)
	group, err = agreed(t, engine, older)
	must(t, err)
	equal(t, tls.X25519, group)

	classic := startEngine(t, "server.tls_groups=P-256")
	group, err = agreed(t, classic, func(*tls.Config) {})
	must(t, err)
	equal(t, tls.CurveP256, group)
}

func TestEngineThatRequiresAHybridGroupRefusesTheRest(t *testing.T) {
	engine := startEngine(t, "server.tls_require=hybrid")
	group, err := agreed(t, engine, func(*tls.Config) {})
	must(t, err)
	equal(t, tls.X25519MLKEM768, group)
	if _, err = agreed(t, engine, older); err == nil || !strings.Contains(err.Error(), "handshake failure") {
		t.Fatalf("%v", err)
	}
}
