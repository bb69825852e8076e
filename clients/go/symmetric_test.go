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
	inspected, err := client.Inspect(background, []string{sealed[0].(string)}, "")
	must(t, err)
	equal(t, "symmetric", inspected[0].Scheme)
	equal(t, 16, len(inspected[0].SymmetricKeyID))
}
