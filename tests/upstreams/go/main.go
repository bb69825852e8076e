// The upstreams go-form and go-json: what net/http and encoding/json read under the selected names.
// Prints one line, the ports by name, and serves until it is terminated.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"strings"
)

const memoryMax = 1 << 20

var routes = strings.Fields(os.Getenv("ROUTES"))

type payment struct {
	CardNumber any `json:"card_number"`
	Card       struct {
		Number any `json:"number"`
	} `json:"card"`
	SecretKey any `json:"secret_key"`
}

func both(r *http.Request, read map[string]any) {
	read["query URL.Query"] = r.URL.Query()["card_number"]
	read["header Header.Values"] = r.Header.Values("X-Card-Number")
}

func form(r *http.Request, read map[string]any) {
	both(r, read)
	_ = r.ParseMultipartForm(memoryMax)
	read["form PostForm"] = r.PostForm["card_number"]
	read["params Form"] = r.Form["card_number"]
	if r.MultipartForm != nil {
		read["form MultipartForm.Value"] = r.MultipartForm.Value["card_number"]
		read["form MultipartForm.File"] = contents(r.MultipartForm.File["card_number"])
	}
}

func contents(files []*multipart.FileHeader) []string {
	var found []string
	for _, header := range files {
		file, err := header.Open()
		if err != nil {
			continue
		}
		content, _ := io.ReadAll(file)
		file.Close()
		runes := make([]rune, 0, len(content))
		for _, octet := range content {
			runes = append(runes, rune(octet))
		}
		found = append(found, string(runes))
	}
	return found
}

func document(r *http.Request, read map[string]any) {
	both(r, read)
	body, _ := io.ReadAll(r.Body)
	var typed payment
	// The usual way, which ignores what follows the first document.
	if json.NewDecoder(bytes.NewReader(body)).Decode(&typed) == nil {
		read["json Decode(struct)"] = []any{typed.CardNumber, typed.Card.Number, typed.SecretKey}
	}
	var untyped map[string]any
	if json.Unmarshal(body, &untyped) == nil {
		inner, _ := untyped["card"].(map[string]any)
		read["json Unmarshal(map)"] = []any{untyped["card_number"], inner["number"], untyped["secret_key"]}
	}
}

func serve(name string, reader func(*http.Request, map[string]any)) int {
	mux := http.NewServeMux()
	for _, route := range routes {
		route := route
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			read := map[string]any{}
			reader(r, read)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Upstream", name)
			_ = json.NewEncoder(w).Encode(map[string]any{"route": route, "read": read})
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { panic(http.Serve(listener, mux)) }()
	return listener.Addr().(*net.TCPAddr).Port
}

func main() {
	ports := map[string]int{"go-form": serve("go-form", form), "go-json": serve("go-json", document)}
	_ = json.NewEncoder(os.Stdout).Encode(ports)
	select {}
}
