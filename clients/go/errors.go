package leafseal

import (
	"fmt"
	"time"
)

// Retry states whether the same call may succeed if it is made again.
type Retry string

const (
	RetryNever     Retry = "never"     // The same call fails again.
	RetryLater     Retry = "later"     // The same engine may serve it after a pause.
	RetryElsewhere Retry = "elsewhere" // Another engine, or a new connection, may serve it now.
)

// Error is the error of every call. Messages contain no values and no secrets.
type Error struct {
	// Code is stable, such as decrypt_failed.
	Code    string
	Message string
	Retry   Retry
	// RetryAfter is the minimum pause before a retry, with RetryLater; 0 if unknown.
	RetryAfter time.Duration
	// Index is the position of the first value or selector at fault, from 0; -1 if unknown.
	Index int
	// Offset is the byte offset of the fault in the document or selector; -1 if unknown.
	Offset int
	// FromEngine is true if the engine reported the error.
	FromEngine bool
	cause      error
}

func (e *Error) Error() string {
	return fmt.Sprintf("leafseal: %s: %s", e.Code, e.Message)
}

// Unwrap returns the cause: for cancelled and deadline_exceeded the error of the context.
func (e *Error) Unwrap() error {
	return e.cause
}

func newError(code string, retry Retry, cause error, format string, arguments ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, arguments...), Retry: retry, Index: -1, Offset: -1, cause: cause}
}

func invalidArgument(format string, arguments ...any) *Error {
	return newError(CodeInvalidParams, RetryNever, nil, format, arguments...)
}

// invalidElement is the error of an element of a list, which the message names, too.
func invalidElement(name string, index int, format string, arguments ...any) *Error {
	failure := invalidArgument("%s[%d]: %s", name, index, fmt.Sprintf(format, arguments...))
	failure.Index = index
	return failure
}

func protocolError(format string, arguments ...any) *Error {
	return newError(CodeProtocolError, RetryElsewhere, nil, format, arguments...)
}
