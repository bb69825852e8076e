package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// ours runs one step of the example audit_witness.
func ours(t *testing.T, input string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.Command(filepath.Join(filepath.Dir(os.Getenv("AUDIT_LOG")), "audit_witness"), arguments...)
	command.Stdin = strings.NewReader(input)
	output, err := command.Output()
	return string(output), err
}

// cosign is a witness as C2SP tlog-witness describes it, over tlog and torchwood: it checks a request for a log, of which it has signed
// last, and returns the cosignature line.
func cosign(request string, log note.Verifier, last *tlog.Tree, signer note.Signer) (string, error) {
	head, signed, found := strings.Cut(request, "\n\n")
	if !found {
		return "", errors.New("no blank line")
	}
	lines := strings.Split(head, "\n")
	if lines[0] != fmt.Sprintf("old %d", last.N) {
		return "", fmt.Errorf("%q, and %d were signed", lines[0], last.N)
	}
	var proof tlog.TreeProof
	for _, line := range lines[1:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return "", err
		}
		proof = append(proof, hash)
	}
	opened, err := note.Open([]byte(signed), note.VerifierList(log))
	if err != nil {
		return "", err
	}
	checkpoint, err := torchwood.ParseCheckpoint(opened.Text)
	if err != nil {
		return "", err
	}
	if last.N > 0 && last.N < checkpoint.N {
		err = tlog.CheckTree(proof, checkpoint.N, checkpoint.Hash, last.N, last.Hash)
	} else if len(proof) > 0 || last.N > 0 && checkpoint.Tree != *last {
		err = errors.New("a proof that must be empty, or another root")
	}
	if err != nil {
		return "", err
	}
	*last = checkpoint.Tree
	cosigned, err := note.Sign(&note.Note{Text: opened.Text}, signer)
	if err != nil {
		return "", err
	}
	_, line, _ := strings.Cut(string(cosigned), "\n\n")
	return line, nil
}

// Requests of our logs are those of the specification, and cosignatures of torchwood are taken into the checkpoint.
func TestOurLogsAreSignedByAnotherWitness(t *testing.T) {
	log, _ := write(t, 100)
	key, err := os.ReadFile(filepath.Join(string(log), "key"))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(strings.TrimSpace(string(key)))
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := torchwood.NewCosignatureSigner("example.org/theirs", private)
	if err != nil {
		t.Fatal(err)
	}
	theirs := signer.Verifier().String()
	var last tlog.Tree
	for _, size := range []int{100, 100, 101, 777, 70_000} {
		if output, err := exec.Command(os.Getenv("AUDIT_LOG"), string(log), fmt.Sprint(size)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		old := fmt.Sprint(last.N)
		body, err := ours(t, "", "ask", string(log), old)
		if err != nil {
			t.Fatal(err)
		}
		line, err := cosign(body, verifier, &last, signer)
		if err != nil {
			t.Fatalf("%d: %v", size, err)
		}
		if _, err := ours(t, line, "take", string(log), old, theirs, "200"); err != nil {
			t.Fatal(err)
		}
		cosigned, err := os.ReadFile(filepath.Join(string(log), "checkpoint.cosigned"))
		if err != nil {
			t.Fatal(err)
		}
		opened, err := note.Open(cosigned, note.VerifierList(verifier, signer.Verifier()))
		if err != nil || len(opened.Sigs) != 2 {
			t.Fatalf("%v %v", opened, err)
		}
		if _, err := ours(t, strings.Replace(line, "A", "B", 1), "take", string(log), fmt.Sprint(last.N), theirs, "200"); err == nil {
			t.Fatal("a changed cosignature is taken")
		}
	}
}

// Our witness cosigns a log that golang.org/x/mod makes, and refuses another history of it.
func TestOurWitnessSignsTheirLogs(t *testing.T) {
	if os.Getenv("AUDIT_LOG") == "" {
		t.Skip("AUDIT_LOG is not set")
	}
	private, public, err := note.GenerateKey(rand.Reader, "example.com/theirs")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	key, err := ours(t, "", "sign", folder, public)
	if err != nil {
		t.Fatal(err)
	}
	// Its key is that of the example.
	known, err := torchwood.NewCosignatureSigner("example.org/ours", ed25519.NewKeyFromSeed(bytes.Repeat([]byte{6}, 32)))
	if err != nil || known.Verifier().String() != strings.TrimSpace(key) {
		t.Fatalf("%s %v", key, err)
	}
	witness := known.Verifier()
	var hashes storage
	request := func(prefix string, old, size int64) string {
		for int64(hashes.records) < size {
			added, err := tlog.StoredHashes(int64(hashes.records), []byte(fmt.Sprint(prefix, hashes.records)), &hashes)
			if err != nil {
				t.Fatal(err)
			}
			hashes.all = append(hashes.all, added...)
			hashes.records++
		}
		root, err := tlog.TreeHash(size, &hashes)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := note.Sign(&note.Note{Text: torchwood.Checkpoint{Origin: "example.com/theirs", Tree: tlog.Tree{N: size, Hash: root}}.String()}, signer)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		fmt.Fprintf(&body, "old %d\n", old)
		if old > 0 {
			proof, err := tlog.ProveTree(size, old, &hashes)
			if err != nil {
				t.Fatal(err)
			}
			for _, hash := range proof {
				fmt.Fprintln(&body, base64.StdEncoding.EncodeToString(hash[:]))
			}
		}
		fmt.Fprintf(&body, "\n%s", signed)
		return body.String()
	}
	old := int64(0)
	for _, size := range []int64{1, 5, 5, 64, 1000} {
		body := request("entry", old, size)
		answer, err := ours(t, body, "sign", folder, public)
		if err != nil {
			t.Fatal(err)
		}
		status, line, _ := strings.Cut(answer, "\n")
		_, checkpoint, _ := strings.Cut(body, "\n\n")
		opened, err := note.Open([]byte(checkpoint+line), note.VerifierList(verifier, witness))
		if status != "200" || err != nil || len(opened.Sigs) != 2 {
			t.Fatalf("%d: %s %v", size, answer, err)
		}
		old = size
	}
	hashes = storage{}
	answer, err := ours(t, request("other", 1000, 2000), "sign", folder, public)
	if err != nil || !strings.HasPrefix(answer, "422\n") {
		t.Fatalf("%s %v", answer, err)
	}
}

// storage has the hashes of a log in memory.
type storage struct {
	records int
	all     []tlog.Hash
}

func (s *storage) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var found []tlog.Hash
	for _, index := range indexes {
		found = append(found, s.all[index])
	}
	return found, nil
}
