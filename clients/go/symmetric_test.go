package leafseal

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// vectors/symmetric/refused.json
type refusals struct {
	Value, Other, Context string
	Refused               []struct {
		Name, Template, Code string
		Context              json.RawMessage
	}
}

// Every template of the vectors, with parts of envelopes that were just made, is refused with its code; the envelope itself opens.
func TestSymmetricRefusals(t *testing.T) {
	client := startEngine(t).client(t)
	text, err := os.ReadFile("../../vectors/symmetric/refused.json")
	must(t, err)
	var vectors refusals
	must(t, json.Unmarshal(text, &vectors))
	sealed, err := client.EncryptAll(background, []any{vectors.Value, vectors.Other}, EncryptOptions{Scheme: "symmetric", Context: vectors.Context})
	must(t, err)
	opened, err := client.DecryptAll(background, sealed, DecryptOptions{Context: vectors.Context})
	must(t, err)
	same(t, []any{vectors.Value, vectors.Other}, opened)
	one, other := strings.Split(sealed[0].(string), ":"), strings.Split(sealed[1].(string), ":")
	parts := strings.NewReplacer("{id}", one[2], "{nonce}", one[3], "{ciphertext}", one[4], "{other_nonce}", other[3], "{other_ciphertext}", other[4])
	for _, vector := range vectors.Refused {
		options := DecryptOptions{Context: vectors.Context}
		if vector.Context != nil {
			options.Context = ""
			must(t, json.Unmarshal(vector.Context, &options.Context))
		}
		_, err := client.Decrypt(background, parts.Replace(vector.Template), options)
		if failure := expect(t, vector.Code, err); !failure.FromEngine {
			t.Fatal(vector.Name)
		}
	}
	equal(t, true, len(vectors.Refused) > 30)
	// Anyone could have made an envelope to a public key: it does not open in a context, nor where symmetric ones alone are accepted.
	public, err := client.Encrypt(background, vectors.Value, EncryptOptions{Scheme: "public-key"})
	must(t, err)
	for _, options := range []DecryptOptions{{Context: vectors.Context}, {Accept: "symmetric"}} {
		_, err = client.Decrypt(background, public, options)
		expect(t, "decrypt_failed", err)
	}
	inspected, err := client.Inspect(background, []string{sealed[0].(string)}, InspectOptions{})
	must(t, err)
	equal(t, "symmetric", inspected[0].Scheme)
	equal(t, 16, len(inspected[0].SymmetricKeyID))
	inspected, err = client.Inspect(background, []string{sealed[0].(string)}, InspectOptions{App: testApp, Context: vectors.Context})
	must(t, err)
	equal(t, int64(1), inspected[0].KeyVersion)
	_, err = client.Inspect(background, []string{sealed[0].(string)}, InspectOptions{App: testApp})
	expect(t, "decrypt_failed", err)
	_, err = client.Inspect(background, []string{sealed[0].(string)}, InspectOptions{Context: vectors.Context})
	expect(t, "invalid_params", err)
	for accept, code := range map[string]string{"symmetric": "", "public-key": "decrypt_failed"} {
		_, err = client.Inspect(background, []string{sealed[0].(string)}, InspectOptions{App: testApp, Context: vectors.Context, Accept: accept})
		if code == "" {
			must(t, err)
		} else {
			expect(t, code, err)
		}
	}
}

// A value opens in its own context, and in no other row.
func TestContextsOfValues(t *testing.T) {
	client := startEngine(t).client(t)
	values, rows := []any{"one", int64(2), nil, true}, []string{"row 1", "row 2", "row 3", "Zeile 4 – ä"}
	symmetric := EncryptOptions{Scheme: "symmetric"}
	sealed, err := client.EncryptAllBound(background, values, rows, symmetric)
	must(t, err)
	opened, err := client.DecryptAllBound(background, sealed, rows, DecryptOptions{})
	must(t, err)
	same(t, values, opened)
	// Where it was sealed with one context for all, it is the same context.
	one, err := client.Decrypt(background, sealed[0], DecryptOptions{Context: rows[0]})
	must(t, err)
	equal(t, any("one"), one)
	moved := []any{sealed[1], sealed[0], nil, sealed[3]}
	_, err = client.DecryptAllBound(background, moved, rows, DecryptOptions{})
	equal(t, 0, expect(t, "decrypt_failed", err).Index)
	_, err = client.DecryptAll(background, sealed, DecryptOptions{})
	expect(t, "decrypt_failed", err)
	var report Report
	left, err := client.DecryptAllBound(background, moved, rows, DecryptOptions{OnFailure: "null", OnReport: func(seen Report) { report = seen }})
	must(t, err)
	same(t, []any{nil, nil, nil, true}, left)
	same(t, []int64{0, 1}, report.FailedIndexes)
	again, count, err := client.RewrapBound(background, []string{sealed[0].(string)}, rows[:1], RewrapOptions{})
	must(t, err)
	same(t, []any{sealed[0], int64(0)}, []any{again[0], count})
	_, _, err = client.RewrapBound(background, []string{sealed[0].(string)}, rows[1:2], RewrapOptions{})
	expect(t, "decrypt_failed", err)
	for _, contexts := range [][]string{nil, rows[:3], {"row 1", "row 2", "", "row 4"}, {"row 1", "row 2", "row 3", strings.Repeat("x", 1025)}} {
		_, err = client.EncryptAllBound(background, values, contexts, symmetric)
		expect(t, "invalid_params", err)
		_, err = client.DecryptAllBound(background, sealed, contexts, DecryptOptions{})
		expect(t, "invalid_params", err)
	}
	_, err = client.EncryptAllBound(background, values, rows, EncryptOptions{Scheme: "symmetric", Context: "row"})
	expect(t, "invalid_params", err)
	long := strings.Repeat("x", 1024)
	sealed, err = client.EncryptAllBound(background, []any{"at the limit"}, []string{long}, symmetric)
	must(t, err)
	opened, err = client.DecryptAllBound(background, sealed, []string{long}, DecryptOptions{})
	must(t, err)
	same(t, []any{"at the limit"}, opened)
}

// Envelopes to a public key become symmetric ones with a mark that stays, and the report counts them; everything else is encrypted or left.
func TestReseal(t *testing.T) {
	client := startEngine(t).client(t)
	seal := func(value any, options EncryptOptions) any {
		sealed, err := client.Encrypt(background, value, options)
		must(t, err)
		return sealed
	}
	arrived := []any{seal("text", EncryptOptions{Role: "card"}), seal(2.5, EncryptOptions{Role: "card", Curve: "k1"}), seal(true, EncryptOptions{Role: "card"})}
	own := seal("own", EncryptOptions{Role: "card", Scheme: "symmetric"})
	given := append(arrived[:3:3], own, "plain", seal("other role", EncryptOptions{Role: "pii"}))
	var report Report
	options := EncryptOptions{Role: "card", Reseal: "symmetric", OnReport: func(seen Report) { report = seen }}
	sealed, err := client.EncryptAll(background, given, options)
	must(t, err)
	same(t, []int64{3, 1, 1, 5}, []int64{report.Rewrapped, report.Skipped, report.Resealed, report.Symmetric})
	equal(t, own, sealed[3])
	opened, err := client.DecryptAll(background, sealed, DecryptOptions{Accept: "symmetric,from-public-key"})
	must(t, err)
	same(t, []any{"text", 2.5, true, "own", "plain", given[5]}, opened)
	for at, envelope := range sealed {
		isMarked := at < 3
		inspected, err := client.Inspect(background, []string{envelope.(string)}, InspectOptions{App: testApp})
		must(t, err)
		same(t, []any{"symmetric", "card", isMarked}, []any{inspected[0].Scheme, inspected[0].Role, inspected[0].IsFromPublicKey})
		for accept, isOpened := range map[string]bool{"public-key": false, "symmetric": !isMarked, "from-public-key": isMarked} {
			_, err = client.Decrypt(background, envelope, DecryptOptions{Accept: accept})
			if isOpened {
				must(t, err)
			} else {
				expect(t, "decrypt_failed", err)
			}
		}
	}
	again, err := client.EncryptAll(background, sealed, options)
	must(t, err)
	same(t, sealed, again)
	same(t, []int64{0, 6}, []int64{report.Rewrapped, report.Skipped})
	document, err := json.Marshal(map[string]any{"card": arrived[0], "note": arrived[1]})
	must(t, err)
	options.Select = []string{"$.card"}
	text, err := client.EncryptDocument(background, document, options)
	must(t, err)
	same(t, []int64{1, 1, 1}, []int64{report.Count, report.Rewrapped, report.Symmetric})
	if !strings.Contains(string(text), `"card":"ev:WEFN:`) || !strings.Contains(string(text), arrived[1].(string)) {
		t.Fatal(string(text))
	}
	for _, wrong := range []EncryptOptions{{Reseal: "symmetric"}, {Reseal: "public-key", Role: "card"}, {Reseal: "symmetric", Role: "card", Scheme: "public-key"}} {
		_, err = client.EncryptAll(background, arrived, wrong)
		expect(t, "invalid_params", err)
	}
}
