package leafseal

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// request is encoded once. The parts that differ between attempts, id and remaining time, are written around it.
type request struct {
	method      string
	hasDeadline bool
	head, tail  []byte
	// data follows the tail; it is the caller's and is neither copied nor wiped.
	data []byte
	// began and deadline are when the call was made, and when the engine may stop working on it.
	began, deadline time.Time
	isRetried       bool
	// refusedBy is the connection of the last attempt. The client's mutex guards it.
	refusedBy *conn

	// mu guards what follows. isOver: the call has returned, so that the caller may change data.
	mu     sync.Mutex
	isOver bool
	// writers is the number of connections that write the request. The last one wipes it if it is over.
	writers int
}

func (r *request) size() int64 {
	return int64(len(r.head) + len(r.tail) + len(r.data) + 24)
}

// begin is called when the call is made. The engine gives up when the caller does.
func (r *request) begin(ctx context.Context) {
	r.began = time.Now()
	if limit, _ := ctx.Deadline(); r.deadline.IsZero() {
		r.deadline = limit
	}
}

// deadlineMS is what is left of the deadline. The engine counts it from when it has read the request, so the first attempt has all of it,
// however long it waited for a connection.
func (r *request) deadlineMS() uint32 {
	from := r.began
	if r.isRetried {
		from = time.Now()
	}
	left := (r.deadline.Sub(from) + time.Millisecond - 1).Milliseconds()
	return uint32(max(1, min(left, 1<<32-1)))
}

// start returns what comes first: the message's own array with the id.
func start(id uint32) []byte {
	return []byte{0x94, 0, 0xce, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
}

func deadline(ms uint32) []byte {
	return msgp.AppendUint32(msgp.AppendString(nil, "deadline_ms"), ms)
}

func cancelMessage(id uint32) []byte {
	message := msgp.AppendArrayHeader(nil, 3)
	message = msgp.AppendString(msgp.AppendUint8(message, 2), "cancel")
	return msgp.AppendUint32(msgp.AppendArrayHeader(message, 1), id)
}

// close is called when the call returns. Connections may still be writing the request.
func (r *request) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isOver = true
	if r.writers == 0 {
		r.wipe()
	}
}

// hold is called before a connection writes the request, and letGo when it will not read it any more.
func (r *request) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writers++
}

func (r *request) letGo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writers--
	if r.isOver && r.writers == 0 {
		r.wipe()
	}
}

// copyData copies what is next of data. Once the call has returned, only the length matters for what follows on the connection.
func (r *request) copyData(to, from []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isOver {
		clear(to)
	} else {
		copy(to, from)
	}
}

func (r *request) wipe() {
	clear(r.head)
	clear(r.tail)
}

// encoder encodes one request: the fields in any order, the longest last.
type encoder struct {
	request *request
	sizeMax int
	fields  []byte
	count   uint32
	err     error
}

func newEncoder(method string, sizeMax int, hasDeadline bool) *encoder {
	return &encoder{request: &request{method: method, hasDeadline: hasDeadline}, sizeMax: sizeMax}
}

// text adds a field that is omitted if it is empty.
func (e *encoder) text(name, value string) *encoder {
	if value != "" {
		e.required(name, value)
	}
	return e
}

func (e *encoder) required(name, value string) *encoder {
	if !utf8.ValidString(value) && e.err == nil {
		e.err = invalidArgument("%s: the string is not UTF-8", name)
	}
	e.fields = msgp.AppendString(msgp.AppendString(e.fields, name), value)
	e.count++
	return e
}

func (e *encoder) flag(name string, value bool) *encoder {
	if value {
		e.fields = msgp.AppendBool(msgp.AppendString(e.fields, name), true)
		e.count++
	}
	return e
}

// option adds an option, and returns whether it is set.
func (e *encoder) option(option option) bool {
	count := e.count
	switch value := option.value.(type) {
	case string:
		e.text(option.field, value)
	case bool:
		e.flag(option.field, value)
	case []string:
		e.texts(option.field, value)
	}
	return e.count > count
}

func (e *encoder) texts(name string, values []string) *encoder {
	if values != nil {
		e.fields = msgp.AppendArrayHeader(msgp.AppendString(e.fields, name), uint32(len(values)))
		for index, value := range values {
			if !utf8.ValidString(value) && e.err == nil {
				e.err = invalidElement(name, index, "the string is not UTF-8")
			}
			e.fields = msgp.AppendString(e.fields, value)
		}
		e.count++
	}
	return e
}

func (e *encoder) done() (*request, error) {
	return e.finish(0)
}

// values ends with the longest field, a list of scalars.
func (e *encoder) values(values []any) (*request, error) {
	if len(values) > elementsMax {
		return nil, invalidArgument("values: more than %d", elementsMax)
	}
	tail := msgp.AppendArrayHeader(msgp.AppendString(make([]byte, 0, 64*len(values)+16), "values"), uint32(len(values)))
	for index, value := range values {
		var err error
		if tail, err = appendScalar(withRoom(tail, scalarSizeMax(value)), value); err != nil && e.err == nil {
			e.err = invalidElement("values", index, "%v", err)
		}
		if e.err != nil || len(tail) > e.sizeMax {
			break
		}
	}
	e.request.tail = tail
	return e.finish(1)
}

// bytes ends with the longest field, which is not copied.
func (e *encoder) bytes(name string, data []byte) (*request, error) {
	if uint64(len(data)) > math.MaxUint32 {
		return nil, newError(CodeTooLarge, RetryNever, nil, "%s: more than 4 GiB", name)
	}
	e.request.tail = msgp.AppendBytesHeader(msgp.AppendString(nil, name), uint32(len(data)))
	e.request.data = data
	return e.finish(1)
}

func (e *encoder) finish(more uint32) (*request, error) {
	if e.request.hasDeadline {
		more++
	}
	head := msgp.AppendArrayHeader(msgp.AppendString(nil, e.request.method), 1)
	e.request.head = append(msgp.AppendMapHeader(head, e.count+more), e.fields...)
	clear(e.fields)
	if e.err == nil && e.request.size() > int64(e.sizeMax) {
		e.err = newError(CodeTooLarge, RetryNever, nil, "the request exceeds RequestSizeMax (%d bytes)", e.sizeMax)
	}
	if e.err != nil {
		e.request.wipe()
		return nil, e.err
	}
	return e.request, nil
}

// withRoom returns the bytes with room for more. If they move, what they leave is cleared.
func withRoom(bytes []byte, more int) []byte {
	if cap(bytes)-len(bytes) >= more {
		return bytes
	}
	moved := append(make([]byte, 0, max(2*cap(bytes), len(bytes)+more)), bytes...)
	clear(bytes)
	return moved
}

// scalarSizeMax is the maximum of what appendScalar appends.
func scalarSizeMax(value any) int {
	text, _ := value.(string)
	return 9 + len(text)
}

func appendScalar(to []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case nil:
		return msgp.AppendNil(to), nil
	case string:
		if !utf8.ValidString(value) {
			return to, fmt.Errorf("the string is not UTF-8")
		}
		return msgp.AppendString(to, value), nil
	case bool:
		return msgp.AppendBool(to, value), nil
	case int:
		return msgp.AppendInt64(to, int64(value)), nil
	case int8:
		return msgp.AppendInt64(to, int64(value)), nil
	case int16:
		return msgp.AppendInt64(to, int64(value)), nil
	case int32:
		return msgp.AppendInt64(to, int64(value)), nil
	case int64:
		return msgp.AppendInt64(to, value), nil
	case uint:
		return msgp.AppendUint64(to, uint64(value)), nil
	case uint8:
		return msgp.AppendUint64(to, uint64(value)), nil
	case uint16:
		return msgp.AppendUint64(to, uint64(value)), nil
	case uint32:
		return msgp.AppendUint64(to, uint64(value)), nil
	case uint64:
		return msgp.AppendUint64(to, value), nil
	case *big.Int:
		return appendBig(to, value)
	case float32:
		return msgp.AppendFloat32(to, value), finite(float64(value))
	case float64:
		// The library would shorten some to 32 bits, whose text has fewer digits.
		bits := math.Float64bits(value)
		to = append(to, 0xcb, byte(bits>>56), byte(bits>>48), byte(bits>>40), byte(bits>>32), byte(bits>>24), byte(bits>>16), byte(bits>>8), byte(bits))
		return to, finite(value)
	}
	return to, fmt.Errorf("expected a string, number, boolean or nil (%T)", value)
}

func appendBig(to []byte, value *big.Int) ([]byte, error) {
	switch {
	case value.IsInt64():
		return msgp.AppendInt64(to, value.Int64()), nil
	case value.IsUint64():
		return msgp.AppendUint64(to, value.Uint64()), nil
	}
	return to, fmt.Errorf("the number is too large")
}

func finite(value float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("the number is not finite")
	}
	return nil
}
