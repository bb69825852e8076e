package leafseal

import (
	"math"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// messageMax is the number of bytes of an engine's error message that are kept.
const messageMax = 1024

// response is an answer: an error, or a result that is read later.
type response struct {
	id     uint32
	err    *Error
	frame  []byte
	result []byte
}

// message is what an engine sends: one of these is set, none for what a newer engine may send.
type message struct {
	response  *response
	goingAway string
	ending    *Error
}

func unreadable() *Error {
	return protocolError("the engine's answer cannot be read")
}

// parse reads the head of a message.
func parse(frame []byte) (message, *Error) {
	count, rest, err := msgp.ReadArrayHeaderBytes(frame)
	if err != nil {
		return message{}, unreadable()
	}
	kind, rest, err := msgp.ReadUint64Bytes(rest)
	switch {
	case err == nil && kind == 1 && count == 4:
		return parseResponse(frame, rest)
	case err == nil && kind == 2 && count == 3:
		return parseNotification(rest)
	}
	return message{}, protocolError("the peer sent a message that is no answer")
}

func parseResponse(frame, rest []byte) (message, *Error) {
	id, rest, err := msgp.ReadUint32Bytes(rest)
	if err != nil {
		return message{}, unreadable()
	}
	response := &response{id: id, frame: frame}
	if msgp.IsNil(rest) {
		response.result = rest[1:]
		return message{response: response}, nil
	}
	var failure *Error
	if response.err, failure = readError(rest, ""); failure != nil {
		return message{}, failure
	}
	return message{response: response}, nil
}

func parseNotification(rest []byte) (message, *Error) {
	method, rest, failure := readText(rest)
	if failure != nil {
		return message{}, failure
	}
	if method != "going_away" && method != "connection_error" {
		return message{}, nil
	}
	count, rest, err := msgp.ReadArrayHeaderBytes(rest)
	if err != nil {
		return message{}, unreadable()
	}
	if method == "connection_error" {
		if count == 0 {
			return message{}, unreadable()
		}
		ending, failure := readError(rest, "the engine ended the connection: ")
		return message{ending: ending}, failure
	}
	// Any other reason, or none, counts as age.
	reason := "age"
	if count > 0 {
		if text, _, failure := readText(rest); failure == nil && text != "" {
			reason = text
		}
	}
	return message{goingAway: reason}, nil
}

// idOf returns the id of an answer that has not arrived completely, or -1.
func idOf(frame []byte) int64 {
	count, rest, err := msgp.ReadArrayHeaderBytes(frame)
	if err != nil || count != 4 {
		return -1
	}
	kind, rest, err := msgp.ReadUint64Bytes(rest)
	if err != nil || kind != 1 {
		return -1
	}
	id, _, err := msgp.ReadUint32Bytes(rest)
	if err != nil {
		return -1
	}
	return int64(id)
}

func readText(from []byte) (string, []byte, *Error) {
	bytes, rest, err := msgp.ReadStringZC(from)
	if err != nil || !utf8.Valid(bytes) {
		return "", nil, unreadable()
	}
	return string(bytes), rest, nil
}

// readMap calls member for each member, which returns what follows its value. It returns what follows the map.
func readMap(from []byte, member func(name string, value []byte) ([]byte, *Error)) ([]byte, *Error) {
	count, rest, err := msgp.ReadMapHeaderBytes(from)
	if err != nil {
		return nil, unreadable()
	}
	for ; count > 0; count-- {
		var name string
		var failure *Error
		if name, rest, failure = readText(rest); failure != nil {
			return nil, failure
		}
		if rest, failure = member(name, rest); failure != nil {
			return nil, failure
		}
	}
	return rest, nil
}

func skip(value []byte) ([]byte, *Error) {
	rest, err := msgp.Skip(value)
	if err != nil {
		return nil, unreadable()
	}
	return rest, nil
}

func readError(from []byte, prefix string) (*Error, *Error) {
	found := &Error{Retry: RetryNever, Index: -1, Offset: -1, FromEngine: true}
	_, failure := readMap(from, func(name string, value []byte) ([]byte, *Error) {
		var text string
		var failure *Error
		rest := value
		switch name {
		case "code", "message", "retry":
			if text, rest, failure = readText(value); failure != nil {
				return nil, failure
			}
		case "retry_after_ms", "index", "offset":
			number := int64(-1)
			if number, rest, failure = readNumber(value); failure != nil {
				return nil, failure
			}
			switch name {
			case "index":
				found.Index = int(number)
			case "offset":
				found.Offset = int(number)
			default:
				found.RetryAfter = time.Duration(max(0, min(number, int64(durationMax/time.Millisecond)))) * time.Millisecond
			}
		default:
			return skip(value)
		}
		switch name {
		case "code":
			found.Code = text
		case "message":
			if len(text) > messageMax {
				text = text[:messageMax]
			}
			found.Message = prefix + text
		case "retry":
			if retry := Retry(text); retry == RetryLater || retry == RetryElsewhere {
				found.Retry = retry
			}
		}
		return rest, nil
	})
	if failure != nil || found.Code == "" {
		return nil, unreadable()
	}
	return found, nil
}

// readNumber reads an unsigned integer; -1 for nil.
func readNumber(from []byte) (int64, []byte, *Error) {
	if msgp.IsNil(from) {
		return -1, from[1:], nil
	}
	number, rest, err := msgp.ReadUint64Bytes(from)
	if err != nil || number > math.MaxInt64 {
		return 0, nil, unreadable()
	}
	return int64(number), rest, nil
}

// readScalar returns nil, bool, string, int64, uint64 from 2^63 on, or float64.
func readScalar(from []byte) (any, []byte, *Error) {
	var value any
	var err error
	rest := from
	switch msgp.NextType(from) {
	case msgp.StrType:
		return textAsAny(from)
	case msgp.NilType:
		rest, err = msgp.ReadNilBytes(from)
	case msgp.BoolType:
		value, rest, err = msgp.ReadBoolBytes(from)
	case msgp.Float64Type:
		value, rest, err = msgp.ReadFloat64Bytes(from)
	case msgp.Float32Type:
		var single float32
		single, rest, err = msgp.ReadFloat32Bytes(from)
		value = float64(single)
	case msgp.IntType:
		value, rest, err = msgp.ReadInt64Bytes(from)
	case msgp.UintType:
		var number uint64
		number, rest, err = msgp.ReadUint64Bytes(from)
		value = number
		if number <= math.MaxInt64 {
			value = int64(number)
		}
	default:
		return nil, nil, unreadable()
	}
	if err != nil {
		return nil, nil, unreadable()
	}
	return value, rest, nil
}

func textAsAny(from []byte) (any, []byte, *Error) {
	text, rest, failure := readText(from)
	return text, rest, failure
}

// readList reads a list; expected is the number of elements it must have, or -1.
func readList[T any](from []byte, expected int, element func([]byte) (T, []byte, *Error)) ([]T, []byte, *Error) {
	count, rest, err := msgp.ReadArrayHeaderBytes(from)
	if err != nil {
		return nil, nil, unreadable()
	}
	if expected >= 0 && int(count) != expected {
		return nil, nil, protocolError("the engine returned another number of values")
	}
	// Not as many as are claimed, but as bytes are there: each has one at least.
	list := make([]T, 0, min(int(count), len(rest)))
	for ; count > 0; count-- {
		value, after, failure := element(rest)
		if failure != nil {
			return nil, nil, failure
		}
		list, rest = append(list, value), after
	}
	return list, rest, nil
}
