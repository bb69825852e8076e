package leafseal

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// queryVector is an entry of vectors/client/queries.json.
type queryVector struct {
	Method    string
	Arguments []string
	Request   string
	Returns   string
	Results   []struct {
		Answer string
		Result map[string]any
	}
	Incomplete []string
}

// Each call without values of users sends what the vectors say, and returns what they say of the answer.
func TestQueries(t *testing.T) {
	engine := startEngine(t)
	bytes, err := os.ReadFile("../../vectors/client/queries.json")
	must(t, err)
	var vectors []queryVector
	must(t, json.Unmarshal(bytes, &vectors))
	for _, vector := range vectors {
		for _, sample := range vector.Results {
			sent, found, err := vector.play(t, engine, sample.Answer)
			must(t, err)
			if !strings.HasSuffix(sent, vector.Request) {
				t.Errorf("%s: sent %s", vector.Method, sent)
			}
			wanted := any(map[string]any{})
			for name, value := range sample.Result {
				wanted.(map[string]any)[plainName(name)] = value
				if vector.Returns == "field" {
					wanted = value
				}
			}
			same(t, wanted, plainValue(found))
		}
		for _, answer := range vector.Incomplete {
			if _, _, err := vector.play(t, engine, answer); code(err) != "protocol_error" {
				t.Errorf("%s without a field: %v", vector.Method, err)
			}
		}
	}
}

// play makes the call, answered with this result. It returns what was sent, in hex, and what the call returned.
func (vector *queryVector) play(t *testing.T, engine *testEngine, answer string) (string, reflect.Value, error) {
	sent := make(chan string, 1)
	peer := startPeer(t, engine, func(conn net.Conn) {
		request := make([]byte, 1<<12)
		size, _ := conn.Read(request)
		sent <- hex.EncodeToString(request[:size])
		conn.Write(fromHex("94 01 00 c0 " + answer))
		new(received).drain(conn)
	})
	client := engine.client(t, at(peer.address), func(s *Settings) { s.App = "00ff" })
	defer client.CloseNow()
	method := reflect.ValueOf(client).MethodByName("")
	for index := range reflect.TypeFor[*Client]().NumMethod() {
		if plainName(vector.Method) == plainName(reflect.TypeFor[*Client]().Method(index).Name) {
			method = reflect.ValueOf(client).Method(index)
		}
	}
	if !method.IsValid() {
		t.Fatalf("the client has no %s", vector.Method)
	}
	arguments := []reflect.Value{reflect.ValueOf(context.Context(background))}
	for _, argument := range vector.Arguments {
		arguments = append(arguments, reflect.ValueOf(argument))
	}
	for len(arguments) < method.Type().NumIn() {
		// The app is that of the client.
		arguments = append(arguments, reflect.ValueOf(""))
	}
	results := method.Call(arguments)
	err, _ := results[1].Interface().(error)
	return <-sent, results[0], err
}

// plainName is the name as in every language: snake_case and CamelCase, and with Is before flags.
func plainName(name string) string {
	name = strings.ToLower(strings.ReplaceAll(name, "_", ""))
	return strings.TrimPrefix(name, "is")
}

// plainValue is a value as JSON has it; fields with the value zero are absent.
func plainValue(value reflect.Value) any {
	switch found := value.Interface().(type) {
	case []byte:
		return hex.EncodeToString(found)
	case time.Time:
		return float64(found.Unix())
	case int64:
		return float64(found)
	case []string:
		list := make([]any, len(found))
		for index, text := range found {
			list[index] = text
		}
		return list
	case map[string]string:
		facts := map[string]any{}
		for name, text := range found {
			facts[plainName(name)] = text
		}
		return facts
	}
	if value.Kind() != reflect.Struct {
		return value.Interface()
	}
	fields := map[string]any{}
	for index := range value.NumField() {
		if field := value.Field(index); !field.IsZero() {
			fields[plainName(value.Type().Field(index).Name)] = plainValue(field)
		}
	}
	return fields
}
