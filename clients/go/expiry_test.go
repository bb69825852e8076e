package leafseal

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// soon is how long the certificate is valid that expires first.
	soon = 3 * time.Second
	late = 24 * time.Hour
)

// link is a certificate and its key.
type link struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// sign issues a certificate for a key; without an issuer, one that signs itself.
func sign(t testing.TB, name string, issuer *link, key *ecdsa.PrivateKey, valid time.Duration, isAuthority bool) *link {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	must(t, err)
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-late), NotAfter: now.Add(valid),
		BasicConstraintsValid: true, IsCA: isAuthority,
	}
	if !isAuthority {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	parent, signer := template, crypto.Signer(key)
	if issuer != nil {
		parent, signer = issuer.certificate, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(t, err)
	certificate, err := x509.ParseCertificate(der)
	must(t, err)
	return &link{certificate: certificate, key: key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

// chain is a root, an authority below it, and a certificate below that.
type chain struct {
	root, between, leaf *link
}

func newChain(t testing.TB, root, between, leaf time.Duration) *chain {
	t.Helper()
	made := &chain{root: sign(t, "root", nil, newKey(t), root, true)}
	made.between = sign(t, "between", made.root, newKey(t), between, true)
	made.leaf = sign(t, "engine", made.between, newKey(t), leaf, false)
	return made
}

// shown is what the engine sends: its certificate and those of the authorities that are given.
func (c *chain) shown(authorities ...*link) *tls.Certificate {
	shown := &tls.Certificate{Certificate: [][]byte{c.leaf.certificate.Raw}, PrivateKey: c.leaf.key}
	for _, authority := range authorities {
		shown.Certificate = append(shown.Certificate, authority.certificate.Raw)
	}
	return shown
}

func trusting(roots ...*link) func(*Settings) {
	var encoded bytes.Buffer
	for _, root := range roots {
		pem.Encode(&encoded, &pem.Block{Type: "CERTIFICATE", Bytes: root.certificate.Raw})
	}
	return func(s *Settings) { s.CA = Content(encoded.Bytes()) }
}

// expiringPeer is a peer that accepts requests. It shows the certificate that was stored last.
type expiringPeer struct {
	*peer
	shown       atomic.Pointer[tls.Certificate]
	connections atomic.Int64
}

func startExpiring(t testing.TB, shown *tls.Certificate, serve func(conn net.Conn, index int64)) *expiringPeer {
	t.Helper()
	p := &expiringPeer{}
	p.shown.Store(shown)
	p.peer = startPeerWith(t, p.shown.Load, func(conn net.Conn) { serve(conn, p.connections.Add(1)) }, alpn)
	return p
}

func accepting(conn net.Conn, _ int64) {
	serving(func(conn net.Conn, id uint32, _ string) { accept(conn, id) })(conn)
}

func TestNoRequestBeginsOnAConnectionWhoseChainHasExpired(t *testing.T) {
	engine := startEngine(t)
	cases := map[string][3]time.Duration{"root": {soon, late, late}, "between": {late, soon, late}, "leaf": {late, late, soon}}
	for name, valid := range cases {
		t.Run(name, func(t *testing.T) {
			chain := newChain(t, valid[0], valid[1], valid[2])
			peer := startExpiring(t, chain.shown(chain.between), accepting)
			client := engine.client(t, at(peer.address), trusting(chain.root), func(s *Settings) { s.RetriesMax = 0 })
			must(t, encrypt(client, background))
			equal(t, 1, peer.connections.Load())
			var err error
			until(t, "the connection is left", func() bool { err = encrypt(client, background); return err != nil })
			if failure := expect(t, CodeTLSFailed, err); !strings.Contains(failure.Message, "expired") {
				t.Fatal(failure)
			}
			equal(t, 1, peer.connections.Load())
			until(t, "the connection is closed", peer.isIdle)
		})
	}
}

func TestAnEngineWithARenewedChainIsConnectedToAgain(t *testing.T) {
	engine := startEngine(t)
	old, renewed := newChain(t, late, soon, late), newChain(t, late, late, late)
	peer := startExpiring(t, old.shown(old.between), accepting)
	client := engine.client(t, at(peer.address), trusting(old.root, renewed.root))
	must(t, encrypt(client, background))
	peer.shown.Store(renewed.shown(renewed.between))
	until(t, "the idle connection is closed", peer.isIdle)
	must(t, encrypt(client, background))
	equal(t, 2, peer.connections.Load())
}

// Requests that are written in part are finished where they are; those of which nothing is written go elsewhere.
func TestRequestsInFlightAreFinishedAfterTheChainHasExpired(t *testing.T) {
	engine := startEngine(t)
	old, renewed := newChain(t, late, soon, late), newChain(t, late, late, late)
	goOn := make(chan struct{})
	peer := startExpiring(t, old.shown(old.between), func(conn net.Conn, index int64) {
		if index == 1 {
			<-goOn
		}
		accepting(conn, index)
	})
	client := engine.client(t, at(peer.address), trusting(old.root, renewed.root), func(s *Settings) { s.ConnectionsMax = 1 })
	started := make(chan error, 1)
	go func() {
		// More than the buffers of the sockets take.
		_, err := client.Encrypt(background, strings.Repeat("x", 32<<20), EncryptOptions{})
		started <- err
	}()
	until(t, "it is being written", func() bool {
		client.mu.Lock()
		defer client.mu.Unlock()
		for conn := range client.open {
			return conn.inFlight == 1 && conn.tickets[0].isStarted
		}
		return false
	})
	peer.shown.Store(renewed.shown(renewed.between))
	must(t, encrypt(client, background))
	equal(t, 2, peer.connections.Load())
	close(goOn)
	must(t, <-started)
}

func TestTheLongestLivedOfSeveralChainsCounts(t *testing.T) {
	engine := startEngine(t)
	chain := newChain(t, late, soon, late)
	again := sign(t, "between", chain.root, chain.between.key, late, true)
	unrelated := newChain(t, late, -time.Hour, late)
	peer := startExpiring(t, chain.shown(chain.between, again, unrelated.between), accepting)
	client := engine.client(t, at(peer.address), trusting(chain.root))
	must(t, encrypt(client, background))
	time.Sleep(time.Until(chain.between.certificate.NotAfter) + 2*time.Second)
	must(t, encrypt(client, background))
	equal(t, 1, peer.connections.Load())
}

func TestAChainMayExpireInTheYear9999(t *testing.T) {
	c := &conn{client: &Client{}}
	c.drainAt(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))
	time.Sleep(50 * time.Millisecond)
	if !c.expiry.Stop() {
		t.Fatal("the connection is left already")
	}
}
