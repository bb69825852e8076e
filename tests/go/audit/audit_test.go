// Package audit reads logs of crates/audit with implementations that are not ours: golang.org/x/mod/sumdb and filippo.io/torchwood.
package audit

import (
	"context"
	"encoding/base64"
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

// folder reads tiles from a log's folder.
type folder string

func (f folder) ReadTiles(_ context.Context, tiles []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range tiles {
		content, err := os.ReadFile(filepath.Join(string(f), torchwood.TilePath(tile)))
		if err != nil {
			// The full one replaces its parts.
			full := tile
			full.W = torchwood.TileWidth
			if content, err = os.ReadFile(filepath.Join(string(f), torchwood.TilePath(full))); err != nil {
				return nil, err
			}
			if content, err = cut(content, tile); err != nil {
				return nil, err
			}
		}
		data = append(data, content)
	}
	return data, nil
}

// cut takes the part of a full tile or bundle that has a tile's width.
func cut(full []byte, tile tlog.Tile) ([]byte, error) {
	if tile.L >= 0 {
		return full[:tile.W*tlog.HashSize], nil
	}
	rest := full
	for range tile.W {
		var err error
		if _, rest, err = torchwood.ReadTileEntry(rest); err != nil {
			return nil, err
		}
	}
	return full[:len(full)-len(rest)], nil
}

func (f folder) SaveTiles([]tlog.Tile, [][]byte) {}

func (f folder) ReadEndpoint(_ context.Context, path string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(f), path))
}

type published struct {
	checkpoint torchwood.Checkpoint
	tree       tlog.Tree
}

// write makes a log with a checkpoint at each size, and opens the checkpoints with note and torchwood.
func write(t *testing.T, sizes ...int64) (folder, []published) {
	t.Helper()
	program := os.Getenv("AUDIT_LOG")
	if program == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("AUDIT_LOG is not set: run tests/go/run.sh")
		}
		t.Skip("AUDIT_LOG is not set")
	}
	log := filepath.Join(t.TempDir(), "log")
	arguments := []string{log}
	for _, size := range sizes {
		arguments = append(arguments, fmt.Sprint(size))
	}
	output, err := exec.Command(program, arguments...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	verifier, err := note.NewVerifier(lines[0])
	if err != nil {
		t.Fatal(err)
	}
	var all []published
	for i, line := range lines[1:] {
		signed, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := note.Open(signed, note.VerifierList(verifier))
		if err != nil {
			t.Fatal(err)
		}
		checkpoint, err := torchwood.ParseCheckpoint(opened.Text)
		if err != nil {
			t.Fatal(err)
		}
		if checkpoint.Origin != verifier.Name() || checkpoint.N != sizes[i] {
			t.Fatalf("%+v", checkpoint)
		}
		all = append(all, published{checkpoint, checkpoint.Tree})
	}
	return folder(log), all
}

func entry(number int64) string {
	return strings.Repeat(fmt.Sprintf("entry %d", number), int(number%5))
}

func TestLogsAreThoseOfTheSpecification(t *testing.T) {
	for _, sizes := range [][]int64{{1}, {255, 256, 257}, {3, 70, 700, 70_000}, {65_536, 65_537, 131_072}} {
		log, all := write(t, sizes...)
		newest := all[len(all)-1].tree
		hashes := torchwood.TileHashReaderWithContext(t.Context(), newest, log)
		root, err := tlog.TreeHash(newest.N, hashes)
		if err != nil || root != newest.Hash {
			t.Fatalf("%v: root %v, %v", sizes, root, err)
		}
		for _, number := range []int64{0, 1, newest.N / 2, newest.N - 2, newest.N - 1} {
			if number < 0 || number >= newest.N {
				continue
			}
			proof, err := tlog.ProveRecord(newest.N, number, hashes)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckRecord(proof, newest.N, newest.Hash, number, tlog.RecordHash([]byte(entry(number)))); err != nil {
				t.Fatal(err)
			}
			if tlog.CheckRecord(proof, newest.N, newest.Hash, number, tlog.RecordHash([]byte("another"))) == nil {
				t.Fatal("another entry is proved")
			}
		}
		for _, older := range all {
			proof, err := tlog.ProveTree(newest.N, older.tree.N, hashes)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckTree(proof, newest.N, newest.Hash, older.tree.N, older.tree.Hash); err != nil {
				t.Fatalf("%d to %d: %v", older.tree.N, newest.N, err)
			}
		}
	}
}

func TestEntriesAreReadByTorchwood(t *testing.T) {
	log, all := write(t, 100, 1000)
	client, err := torchwood.NewClient(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, older := range all {
		next := int64(0)
		for number, found := range client.Entries(t.Context(), older.tree, 0) {
			if number != next || string(found) != entry(number) {
				t.Fatalf("%d: %q", number, found)
			}
			next++
		}
		if err := client.Err(); err != nil {
			t.Fatal(err)
		}
		// It leaves entries out whose bundle may still fill up.
		if next < older.tree.N/256*256 {
			t.Fatalf("%d of %d entries", next, older.tree.N)
		}
		for _, number := range []int64{0, older.tree.N / 2, older.tree.N - 1} {
			found, proof, err := client.Entry(t.Context(), older.tree, number)
			if err != nil || string(found) != entry(number) {
				t.Fatalf("%d: %q, %v", number, found, err)
			}
			if err := tlog.CheckRecord(proof, older.tree.N, older.tree.Hash, number, tlog.RecordHash(found)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// golang.org/x/mod before 0.40 does not find it (CVE-2026-56865).
func TestAChangedTileIsFoundByOthersToo(t *testing.T) {
	log, all := write(t, 700)
	path := filepath.Join(string(log), "tile/0/001")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[40] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	tree := all[0].tree
	hashes := torchwood.TileHashReaderWithContext(t.Context(), tree, log)
	if proof, err := tlog.ProveRecord(tree.N, 300, hashes); err == nil {
		t.Fatal("the change is not found", proof)
	}
}
